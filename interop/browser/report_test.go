// Package browser has a browser look at the pages that package verify writes.
package browser

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// browser returns the program, which Debian has as chromium-headless-shell and
// as chromium.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no chromium: apt-get install chromium-headless-shell")
	return ""
}

// A tab shows one page and keeps what the page should not do: messages of the
// console, errors, dialogs, and requests for anything but itself.
type tab struct {
	t    *testing.T
	ctx  context.Context
	url  string
	mu   sync.Mutex
	told []string
}

// open loads a page over HTTP, where a browser would also ask for an icon.
func open(t *testing.T, p *verify.Page, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, verify.WriteHTML(&b, p))
	w := &tab{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/report.html" {
			w.tell("the server was asked for " + r.URL.Path)
		}
		out.Header().Set("Content-Type", "text/html")
		out.Write(b.Bytes())
	}))
	t.Cleanup(server.Close)
	w.url = server.URL + "/report.html"
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	if w.ctx, cancel = chromedp.NewContext(ctx); cancel != nil {
		t.Cleanup(cancel)
	}
	w.ctx, cancel = context.WithTimeout(w.ctx, time.Minute) // of a browser that hangs
	t.Cleanup(cancel)
	w.do()
	require.NoError(t, chromedp.Listen(w.ctx, w.event))
	w.do(chromedp.EmulateViewport(1280, 900))
	w.do(before...)
	w.do(chromedp.Navigate(w.url))
	return w
}

func (w *tab) tell(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, text)
}

func (w *tab) event(ev any) {
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		w.tell(fmt.Sprintf("console: %v", e.Args))
	case *runtime.EventExceptionThrown:
		w.tell("exception: " + e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		w.tell("log: " + e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		w.tell("dialog: " + e.Message)
	case *network.EventRequestWillBeSent:
		if e.Request.URL != w.url && !strings.HasPrefix(e.Request.URL, w.url+"#") && e.Request.URL != "data:," {
			w.tell("request: " + e.Request.URL)
		}
	}
}

// quiet checks that the page has done nothing that it should not.
func (w *tab) quiet() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w.t, w.told)
}

func (w *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	require.NoError(w.t, chromedp.Do(w.ctx, steps...))
}

func get[T any](w *tab, js string) T {
	w.t.Helper()
	v, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](js))
	require.NoError(w.t, err, js)
	return v
}

// names returns those of the rows that are drawn.
func (w *tab) names() []string {
	w.t.Helper()
	return get[[]string](w, `[...document.querySelectorAll('#table tbody button')].map(b => b.title)`)
}

func (w *tab) status() string { return get[string](w, `document.getElementById('status').textContent`) }

// query types into the search.
func (w *tab) query(text string) {
	w.t.Helper()
	get[bool](w, `(document.getElementById('query').value = '', true)`)
	w.do(chromedp.SendKeys(chromedp.CSS("#query"), text))
}

// show chooses which lines are shown.
func (w *tab) show(value string) {
	w.t.Helper()
	get[bool](w, fmt.Sprintf(`(() => { const s = document.getElementById('show'); s.value = %q; return s.dispatchEvent(new Event('change')) })()`, value))
}

func (w *tab) head(key string) chromedp.CSS {
	return chromedp.CSS(fmt.Sprintf("#table thead button[data-key=%q]", key))
}

func (w *tab) sorted(key string) string {
	w.t.Helper()
	return get[string](w, fmt.Sprintf("document.querySelector('#table thead button[data-key=%q]').parentElement.getAttribute('aria-sort')", key))
}

func record(name string, changed int64, err2 float64) tensor.Record {
	s := &tensor.Stats{Count: 100, Finite: 100, Changed: changed, SumErr2: err2, SumRef2: 100, MaxAbs: err2, MaxIndex: 4, MaxRef: 1.5, MaxGot: 1}
	if changed == 0 {
		s.MaxIndex = -1
	}
	return tensor.Record{Name: name, From: "F32", To: "BF16", Reason: "target type", Shape: []int64{10, 10}, SizeIn: 400, SizeOut: 200, Rounding: "nearest-even", Stats: s}
}

// model has layers of two tensors each, of which layer 3 is bad and 7 poor.
func model() *verify.Page {
	p := &verify.Page{Title: "a.safetensors → b.safetensors", Kind: "conversion"}
	for i := range 12 {
		q, u := record(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), 90, 2e-4+float64(i)*1e-6), record(fmt.Sprintf("model.layers.%d.mlp.up_proj.weight", i), 80, 1e-4)
		switch i {
		case 3:
			u.Stats.Overflowed, u.Stats.InfOut = 5, 5
		case 7:
			q.Stats.SumErr2 = 1e-2
		}
		p.Records = append(p.Records, q, u)
	}
	p.Records = append(p.Records, record("model.norm.weight", 0, 0), tensor.Record{Name: "ids", From: "I64", To: "I64", SizeIn: 8, SizeOut: 8})
	return p
}

func TestPageShowsSortsAndFilters(t *testing.T) {
	w := open(t, model())
	require.Equal(t, "a.safetensors → b.safetensors", get[string](w, `document.querySelector('h1').textContent`))
	require.Contains(t, get[string](w, `document.getElementById('verdict').textContent`), "1 tensor lost more than rounding takes: 5 overflowed")
	require.Equal(t, 13, get[int](w, `document.querySelectorAll('svg .bar').length`), "12 layers and what is outside")
	require.Equal(t, 1, get[int](w, `document.querySelectorAll('svg .bar.bad').length`))
	require.Equal(t, "26 tensors", w.status())
	require.Equal(t, 27, get[int](w, `+document.getElementById('table').getAttribute('aria-rowcount')`))
	require.Equal(t, "model.layers.0.self_attn.q_proj.weight", w.names()[0])

	w.do(chromedp.Click(w.head("snr"))) // the worst first
	require.Equal(t, "ascending", w.sorted("snr"))
	require.Equal(t, "model.layers.7.self_attn.q_proj.weight", w.names()[0])
	w.do(chromedp.KeyEvent(kb.Enter)) // the heading still has the focus
	require.Equal(t, "descending", w.sorted("snr"))
	names := w.names()
	require.Equal(t, "model.norm.weight", names[0], "exact is the best")
	w.do(chromedp.Click(w.head("")))
	require.Equal(t, []string{"ids", "model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight"}, w.names()[:4])
	w.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, []string{"model.norm.weight", "model.layers.11.self_attn.q_proj.weight"}, w.names()[:2], "numbers sort as numbers")
	w.do(chromedp.Click(w.head("max")))
	names = w.names()
	require.Equal(t, []string{"model.norm.weight", "ids"}, names[24:], "what has no figure comes last")
	w.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "ids", w.names()[25])

	w.query("LAYERS.1 mlp")
	require.Equal(t, "3 of 26 tensors", w.status())
	w.query("/^model\\.layers\\.[45]\\.mlp/")
	require.ElementsMatch(t, []string{"model.layers.4.mlp.up_proj.weight", "model.layers.5.mlp.up_proj.weight"}, w.names())
	w.query("/(/")
	require.Equal(t, "not a regular expression", w.status())
	require.Empty(t, w.names())
	w.query(" ")
	w.show("look")
	require.ElementsMatch(t, []string{"model.layers.3.mlp.up_proj.weight", "model.layers.7.self_attn.q_proj.weight"}, w.names())
	w.show("changed")
	require.Equal(t, "24 of 26 tensors", w.status())
	w.show("all")

	w.do(chromedp.Click(chromedp.CSS("svg .bar.bad")))
	require.Equal(t, "model.layers.3 ✕", get[string](w, `document.getElementById('only').textContent`))
	require.Len(t, w.names(), 2)
	w.do(chromedp.Click(chromedp.CSS("#only")))
	require.Len(t, w.names(), 26)

	get[bool](w, `(document.querySelector('#tabs input[value=parts]').click(), true)`)
	require.Equal(t, "4 parts", w.status())
	require.Equal(t, []string{"attention", "mlp", "norm", "other"}, w.names())
	get[bool](w, `(document.querySelector('#tabs input[value=types]').click(), true)`)
	require.Equal(t, []string{"F32 -> BF16", "I64"}, w.names())
	w.quiet()
}

func TestPageByKeyboard(t *testing.T) {
	w := open(t, model())
	w.do(chromedp.Focus(chromedp.CSS("#table tbody button")), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	require.Equal(t, "model.layers.1.self_attn.q_proj.weight", get[string](w, `document.activeElement.title`))
	w.do(chromedp.KeyEvent(kb.End))
	require.Equal(t, "ids", get[string](w, `document.activeElement.title`))
	require.True(t, get[bool](w, `(() => { const b = document.activeElement.getBoundingClientRect(), g = document.getElementById('grid').getBoundingClientRect(); return b.top >= g.top && b.bottom <= g.bottom })()`), "it is in sight")
	w.do(chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.Enter))
	require.True(t, get[bool](w, `document.getElementById('details').open`))
	text := get[string](w, `document.getElementById('details').innerText`)
	require.Contains(t, text, "model.layers.11.mlp.up_proj.weight")
	require.Contains(t, text, "80.00 % (80)")
	require.Contains(t, text, "nearest-even")
	w.do(chromedp.KeyEvent(kb.Escape))
	require.False(t, get[bool](w, `document.getElementById('details').open`))
	w.quiet()
}

// TestHostileNames: names stay texts wherever they come, and nothing of them
// runs, loads, hides or turns around.
func TestHostileNames(t *testing.T) {
	names := []string{
		`</script><script>alert(1)</script>`, `<img src=x onerror=alert(2)>`, `"><svg onload=alert(3)>`, `' onclick='alert(4)`, "nul\x00nul", "\u202egnp.exe", "line\u2028end",
		"{{.}}${alert(5)}", "&lt;b&gt;", strings.Repeat("very.long.", 300), "", "😀.2.é", "http://example.invalid/x.png", "javascript:alert(6)",
	}
	p := &verify.Page{Title: names[0], Kind: names[1], Warnings: names, Problems: []verify.Problem{{Tensor: names[2], Text: names[1]}}, Facts: []verify.Fact{{Label: names[1], Value: names[0]}}}
	for i, n := range names {
		p.Records = append(p.Records, record(n, 5, 1e-3*float64(len(names)-i)), record(n+".1.x", 5, 1e-5))
	}
	w := open(t, p)
	require.Equal(t, names[0], get[string](w, `document.querySelector('h1').textContent`))
	require.Equal(t, []int{2, 0, 0}, get[[]int](w, `[document.scripts.length, document.images.length, document.querySelectorAll('[onclick],[onload],[onerror]').length]`))
	shown := w.names()
	want := strings.NewReplacer("\x00", `\u{0}`, "\u202e", `\u{202e}`, "\u2028", `\u{2028}`)
	for i, n := range names[:8] {
		require.Equal(t, want.Replace(n), shown[2*i])
	}
	require.NotContains(t, get[string](w, `document.body.innerText`), "\u202e")
	for i := range 10 {
		get[bool](w, fmt.Sprintf(`(document.querySelectorAll('#table tbody button')[%d].click(), true)`, 2*i))
		require.Equal(t, shown[2*i], get[string](w, `document.getElementById('details-h').textContent`))
		w.do(chromedp.KeyEvent(kb.Escape))
	}
	w.query("alert(1)")
	require.Equal(t, "2 of 28 tensors", w.status())
	w.quiet()
}

// TestPolicy: what is not the page's own does not run, even if it got in.
func TestPolicy(t *testing.T) {
	w := open(t, model())
	get[bool](w, `(() => {
		const s = document.createElement('script');
		s.textContent = 'window.ran = true';
		document.body.append(s);
		const i = document.createElement('img');
		i.src = '/pixel.png';
		document.body.append(i);
		return true;
	})()`)
	require.True(t, get[bool](w, `window.ran === undefined`))
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.told, "\n")
	require.Equal(t, 2, strings.Count(text, "violates the following Content Security Policy directive"), text)
	require.NotContains(t, text, "the server was asked")
}

// TestLarge has 100,000 tensors, of which only those in sight are elements.
func TestLarge(t *testing.T) {
	p := &verify.Page{Title: "large", Kind: "conversion"}
	const n = 100_000
	for i := range n {
		p.Records = append(p.Records, record(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/1000, i%1000), 5, 1e-4+float64(i*7919%n)*1e-9))
	}
	const worst = 77_777
	p.Records[worst].Stats.SumErr2 = 1
	w := open(t, p)
	timed := func(what, js string) {
		t.Helper()
		t.Logf("%s: %.0f ms", what, get[float64](w, `(() => { const t = performance.now(); `+js+`; return performance.now() - t })()`))
	}
	require.Equal(t, "100,000 tensors", w.status())
	t.Logf("loaded in %.0f ms", get[float64](w, `performance.timing.domComplete - performance.timing.responseEnd`))
	require.Less(t, len(w.names()), 100)
	require.Less(t, get[int](w, `document.querySelectorAll('*').length`), 5000)
	for _, key := range []string{"snr", "", "changed"} {
		timed("sort by "+key, fmt.Sprintf(`document.querySelector('#table thead button[data-key=%q]').click()`, key))
	}
	timed("sort by snr", `document.querySelector('#table thead button[data-key="snr"]').click()`)
	require.Equal(t, p.Records[worst].Name, w.names()[0])
	timed("search", `document.getElementById('query').value = 'layers.42. experts.7.'; document.getElementById('query').dispatchEvent(new Event('input'))`)
	require.Equal(t, []string{"model.layers.42.mlp.experts.7.down_proj.weight"}, w.names())
	timed("all again", `document.getElementById('query').value = ''; document.getElementById('query').dispatchEvent(new Event('input'))`)
	w.do(chromedp.Click(w.head("")), chromedp.Focus(chromedp.CSS("#table tbody button")), chromedp.KeyEvent(kb.End))
	require.Equal(t, "model.layers.99.mlp.experts.999.down_proj.weight", get[string](w, `document.activeElement.title`))
	w.do(chromedp.KeyEvent(kb.ArrowUp))
	require.Equal(t, "model.layers.99.mlp.experts.998.down_proj.weight", get[string](w, `document.activeElement.title`))
	get[bool](w, `(document.getElementById('grid').scrollTop = 32 * 50000, true)`)
	_, err := chromedp.Run(w.ctx, chromedp.Poll[bool](`[...document.querySelectorAll('#table tbody button')].some(b => b.title === 'model.layers.50.mlp.experts.3.down_proj.weight')`))
	require.NoError(t, err)
	w.quiet()
}

// looks are widths and colours of the system.
var looks = []struct {
	name, scheme  string
	width, height int64
}{{"light", "light", 1280, 900}, {"dark", "dark", 1280, 900}, {"narrow", "light", 390, 844}, {"narrow-dark", "dark", 390, 844}}

// TestLooks: the page takes the colours of the system and fits the window. With
// DEMI_SCREENSHOTS, a directory, it leaves pictures there.
func TestLooks(t *testing.T) {
	p := model()
	p.Records = append(p.Records, record(strings.Repeat("a_very_long_name_", 30), 5, 1e-3))
	p.Title, p.Warnings = strings.Repeat("long_", 60), []string{strings.Repeat("warning", 60)}
	grounds := map[string]string{}
	for _, look := range looks {
		w := open(t, p, chromedp.EmulateViewport(look.width, look.height), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}})
			return err
		}))
		grounds[look.name] = get[string](w, `getComputedStyle(document.body).backgroundColor`)
		require.LessOrEqual(t, get[int64](w, `document.documentElement.scrollWidth`), look.width, look.name)
		if dir := os.Getenv("DEMI_SCREENSHOTS"); dir != "" {
			png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, look.name+".png"), png, 0o666))
		}
		w.quiet()
	}
	require.NotEqual(t, grounds["light"], grounds["dark"])
	require.Equal(t, grounds["dark"], grounds["narrow-dark"])
}

// TestWithoutScript: all but the table to search is there.
func TestWithoutScript(t *testing.T) {
	w := open(t, model(), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	text := get[string](w, `document.body.innerText`)
	require.Contains(t, text, "needs JavaScript")
	require.Contains(t, text, "What lost most\ntensor")
	require.NotContains(t, text, "Headings sort")
	require.Equal(t, 13, get[int](w, `document.querySelectorAll('svg .bar').length`))
	w.quiet()
}
