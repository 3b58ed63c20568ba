// Reads, with clients from npm, the files that interop/go/writefiles wrote: llama.cpp itself (node-llama-cpp), which must
// decode the tokens that the trainer of the checkpoint decoded, and the readers of @huggingface/gguf, @huggingface/hub and hyllama,
// which must find the names, types, shapes and bytes of the list.
//
//   npm install --omit=optional --ignore-scripts --no-audit --no-fund --no-package-lock
//   cd ../go && go run ./writefiles DIR
//   node ../node/formats.mjs DIR ../../testdata/charlm
//
// Prints one line per check; the exit status is 1 if any of them failed. A client that is not installed is named, and its checks are left
// out; the status is 2 if there was none at all.
import { createHash } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";

const [dir, charlm] = process.argv.slice(2);
if (!charlm) {
  console.error("usage: node formats.mjs DIR CHARLM");
  process.exit(2);
}
const list = JSON.parse(fs.readFileSync(path.join(dir, "manifest.json"), "utf8"));
let passed = 0, failed = 0;

async function check(name, run) {
  try {
    const note = await run();
    passed++;
    console.log(`ok   ${name}${note ? ` (${note})` : ""}`);
  } catch (err) {
    failed++;
    console.log(`FAIL ${name}: ${err.stack ?? err}`);
  }
}

function expect(want, got, what) {
  const [a, b] = [want, got].map((v) => JSON.stringify(v, (_, x) => (typeof x === "bigint" ? Number(x) : x)));
  if (a !== b) throw new Error(`${what}: want ${a}, got ${b}`);
}

// client loads a package, or says that it is not there.
async function client(name) {
  try {
    return await import(name);
  } catch (err) {
    if (err.code !== "ERR_MODULE_NOT_FOUND") throw err;
    console.log(`${name} is not installed: its checks are left out`);
    return null;
  }
}

// bytesAt reads a part of a file.
function bytesAt(file, offset, size) {
  const fd = fs.openSync(file, "r"), p = Buffer.alloc(size);
  const n = fs.readSync(fd, p, 0, size, offset);
  fs.closeSync(fd);
  expect(size, n, `bytes of ${file} at ${offset}`);
  return p;
}

const digest = (p) => createHash("sha256").update(p).digest("hex");

// shards returns the files of an entry.
function shards(entry) {
  const name = path.join(dir, entry.path);
  if (!entry.set) return [name];
  const folder = entry.format === "gguf" ? path.dirname(name) : name;
  return fs.readdirSync(folder).filter((f) => f.endsWith("." + entry.format)).sort().map((f) => path.join(folder, f));
}

// compare compares tensors that a reader found (name, type, shape, file, start) with the list.
function compare(entry, found) {
  expect(entry.tensors.map((t) => t.name).sort(), found.map((t) => t.name).sort(), "names");
  const want = new Map(entry.tensors.map((t) => [t.name, t]));
  for (const t of found) {
    const w = want.get(t.name);
    expect([w.dtype, w.shape], [t.dtype, t.shape], t.name);
    expect(w.sha256, digest(bytesAt(t.file, t.start, w.bytes)), t.name);
  }
  return `${found.length} tensors`;
}

const typeNames = { 0: "F32", 1: "F16", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16" };
const rowMajor = (shape) => [...shape].reverse().map(Number);

// ggufChecks: two readers of GGUF with the same kind of answer.
async function ggufChecks(name, parse) {
  for (const entry of list.filter((e) => e.format === "gguf")) {
    await check(`${entry.path}: ${name}`, async () => {
      const found = [];
      for (const file of shards(entry)) {
        const { tensors, start, align } = await parse(file);
        expect(entry.align, Number(align ?? 32), "alignment");
        for (const t of tensors) {
          const at = start + Number(t.offset);
          expect(0, at % entry.align, `place of ${t.name}`);
          found.push({ name: t.name, dtype: typeNames[t.type], shape: rowMajor(t.shape), file, start: at });
        }
      }
      return compare(entry, found);
    });
  }
}

async function huggingfaceGGUF() {
  const hf = await client("@huggingface/gguf");
  if (!hf) return;
  await ggufChecks("@huggingface/gguf", async (file) => {
    const g = await hf.gguf(file, { allowLocalFile: true });
    const tensors = g.tensorInfos.map((t) => ({ name: t.name, type: t.dtype, shape: t.shape, offset: t.offset }));
    return { tensors, start: Number(g.tensorDataOffset), align: g.metadata["general.alignment"] };
  });
}

// hyllama gives no start of the data: that comes from @huggingface/gguf.
async function hyllama() {
  const h = await client("hyllama"), meta = await client("@huggingface/gguf");
  if (!h || !meta) return;
  await ggufChecks("hyllama", async (file) => {
    const b = fs.readFileSync(file);
    const g = h.ggufMetadata(b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength));
    const tensors = g.tensorInfos.map((t) => ({ name: t.name, type: t.type, shape: t.shape, offset: t.offset }));
    const start = Number((await meta.gguf(file, { allowLocalFile: true })).tensorDataOffset);
    return { tensors, start, align: g.metadata["general.alignment"] };
  });
}

// hub serves a folder on this machine as the Hub serves a repository, with ranges.
function hub(folder) {
  const server = http.createServer((request, response) => {
    const name = new URL(request.url, "http://x").pathname.match(/^\/own\/repo\/(?:resolve|raw)\/main\/(.+)$/)?.[1];
    const file = name && path.join(folder, name);
    if (!file || !fs.existsSync(file)) {
      response.writeHead(404, { "X-Error-Code": "EntryNotFound" });
      return response.end();
    }
    const size = fs.statSync(file).size;
    const range = request.headers.range?.match(/bytes=(\d+)-(\d*)/);
    const [from, to] = range ? [Number(range[1]), Math.min(range[2] ? Number(range[2]) : size - 1, size - 1)] : [0, size - 1];
    const headers = { ETag: '"x"', "Accept-Ranges": "bytes", "Content-Length": to - from + 1 };
    if (range) headers["Content-Range"] = `bytes ${from}-${to}/${size}`;
    response.writeHead(range ? 206 : 200, headers);
    if (request.method === "HEAD") return response.end();
    fs.createReadStream(file, { start: from, end: to }).pipe(response);
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

async function huggingfaceHub() {
  const hf = await client("@huggingface/hub");
  if (!hf) return;
  for (const entry of list.filter((e) => e.format === "safetensors")) {
    await check(`${entry.path}: @huggingface/hub`, () => readHub(hf, entry));
  }
}

async function readHub(hf, entry) {
  const folder = entry.set ? path.join(dir, entry.path) : fs.mkdtempSync(path.join(dir, "hub-"));
  if (!entry.set) fs.copyFileSync(path.join(dir, entry.path), path.join(folder, "model.safetensors"));
  const server = await hub(folder);
  try {
    const x = await hf.parseSafetensorsMetadata({ repo: "own/repo", hubUrl: `http://127.0.0.1:${server.address().port}`, computeParametersCount: true });
    expect(entry.set, x.sharded, "sharded");
    const found = [];
    for (const [file, header] of Object.entries(x.sharded ? x.headers : { "model.safetensors": x.header })) {
      expect("pt", header.__metadata__.format, "format");
      const whole = path.join(folder, file);
      const data = 8 + Number(bytesAt(whole, 0, 8).readBigUInt64LE());
      for (const [name, t] of Object.entries(header)) {
        if (name !== "__metadata__") found.push({ name, dtype: t.dtype, shape: t.shape, file: whole, start: data + t.data_offsets[0] });
      }
    }
    return compare(entry, found);
  } finally {
    server.close();
    if (!entry.set) fs.rmSync(folder, { recursive: true });
  }
}

// llamaCpp decodes from the trainer's prompt, always the likeliest token.
async function llamaCpp() {
  const nlc = await client("node-llama-cpp");
  if (!nlc) return;
  const { greedy } = JSON.parse(fs.readFileSync(path.join(charlm, "model.json"), "utf8"));
  const llama = await nlc.getLlama({ gpu: false, build: "never", logLevel: "error", usePrebuiltBinaries: true, skipDownload: true });
  for (const name of ["model.gguf", "align64.gguf", list.find((e) => e.path.startsWith("split/")).path]) {
    await check(`${name}: llama.cpp`, async () => {
      const model = await llama.loadModel({ modelPath: path.join(dir, name), useMmap: true, checkTensors: true });
      expect(greedy.prompt_tokens, model.tokenize(greedy.prompt).filter((t) => t !== model.tokens.bos), "tokens of the prompt");
      const context = await model.createContext({ contextSize: 128, threads: 1 });
      const out = [];
      for await (const t of context.getSequence().evaluate([...greedy.prompt_tokens], { temperature: 0 })) {
        if (out.push(t) === greedy.tokens.length) break;
      }
      await model.dispose();
      expect(greedy.tokens, out, "greedy tokens");
      return `${out.length} tokens`;
    });
  }
  await llama.dispose();
}

for (const run of [huggingfaceGGUF, hyllama, huggingfaceHub, llamaCpp]) await run();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : passed > 0 ? 0 : 2);
