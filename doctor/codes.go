package doctor

// A Code describes one kind of Finding.
type Code struct {
	Code     string
	Severity Severity // the usual one; some findings of the code differ
	Means    string
	Fix      string // the usual advice
}

const (
	again    = "get the file again"
	rewrite  = "write the file again: demi FILE NEW --dtype keep"
	newIndex = "make the index again from the headers of the shards"
)

// Codes returns all codes, in the order of the documentation.
func Codes() []Code {
	return []Code{
		// What is no file of weights at all.
		{"lfs-pointer", Error, "a Git LFS pointer stands in for the file", "fetch the file with git lfs pull"},
		{"link-text", Error, "a text file with a path in it, as Git makes of a symbolic link", "check out with symbolic links enabled (git config core.symlinks true), or copy that file here"},
		{"html-page", Error, "a web page was saved under the name of a file", again + "; the page says why it was sent (address, login, licence to accept?)"},
		{"empty-file", Error, "no bytes, or nothing but zeros", again},
		{"not-weights", Error, "the content is of another kind than any file of weights", again},
		{"broken-link", Error, "a symbolic link to nothing, or to itself", "restore what it points to, or " + again},
		{"not-a-file", Error, "a directory, a pipe, a socket or a device has the name of a file of weights", "put the file there"},
		{"unreadable", Error, "the system refuses to read it", "see to its permissions, or to the disk"},
		{"wrong-extension", Warning, "the content is of another format than the name says", "rename it"},

		// One file.
		{"truncated", Error, "the end of the file is missing", again},
		{"trailing-bytes", Error, "there are bytes after the last tensor", again},
		{"header-padding", Warning, "the header is padded with NUL bytes, which the reference refuses", rewrite},
		{"invalid-file", Error, "the file breaks a rule of its format", again},
		{"unsupported", Warning, "well-formed, but with something that cannot be read", "read it with the program that wrote it"},
		{"too-large", Warning, "a header, a pickle or an index is larger than what readers take", "split the file"},
		{"no-format", Warning, "the metadata lack \"format\", which transformers asks for", rewrite + " (adds \"format\": \"pt\")"},
		{"unaligned", Warning, "tensors do not begin on a multiple of the size of their elements, so that readers must copy them", rewrite + " (aligns them)"},
		{"missing-padding", Note, "the padding after the last tensor of a GGUF file is missing", rewrite},
		{"pickle-code", Error, "a pickle names functions that run programs, read files or load code", "do not load it with PyTorch; get the model as safetensors"},
		{"pickle-class", Warning, "a pickle names classes or functions that plain weights do not need: PyTorch imports them, and may call them", "load it only if you trust its source; get the model as safetensors"},

		// Tensors.
		{"float-position-ids", Warning, "position ids are floating-point numbers, as a careless cast leaves them: in 16 bits not all are exact", "make them I64 again, or remove the tensor: programs make it themselves"},
		{"fp8-no-scale", Warning, "an FP8 tensor has no scale, so that its values cannot be told", "get the file with the scales again; programs that need none take the values as they are"},
		{"duplicate-tensor", Error, "a tensor is in two files of a set", "remove or move the file that is not of this set"},
		{"nan", Error, "values are NaN (--scan)", "get the file again, or go back to an earlier save"},
		{"inf", Warning, "values are infinite (--scan)", "make sure that they are meant, as in a mask"},
		{"checksum", Error, "content differs from its checksum (--scan)", again},

		// Sets.
		{"missing-shard", Error, "files of a set are missing", "get the missing files"},
		{"bad-index", Error, "the index cannot be read", "get the index again, or make it again from the headers of the shards"},
		{"index-missing-tensor", Error, "the index names tensors that its files do not have", "get the files that belong to the index"},
		{"index-wrong-shard", Error, "the index names another file for tensors than the one that has them", newIndex},
		{"index-partial", Error, "tensors of the files are not in the index", newIndex},
		{"index-total-size", Warning, "total_size of the index is not the sum of the tensors", newIndex},
		{"index-digest", Error, "files of a set of stores are others than those that its index was made of", "get the files that belong to the index, or, if these are meant, make it again from their headers"},
		{"no-index", Warning, "shards have no index, without which transformers does not find them", newIndex},
		{"two-sets", Warning, "several models lie in one directory, and programs differ in which one they load", "keep one of them, and move the others to directories of their own"},
		{"leftover-shard", Warning, "shards that no index owns, as of an earlier save", "move them away, or remove them"},
		{"other-weights", Note, "files of weights beside a set with an index", "load the set by its index"},
		{"gguf-split", Error, "the split keys of GGUF shards disagree with their names or with each other", "get the set again, or split the model again (gguf-split)"},

		// What lies beside.
		{"config-dtype", Warning, "config.json names another element type than the weights have: programs that believe it cast them", "write the type of the weights into config.json"},
		{"bad-config", Error, "config.json is not JSON", again},
		{"staging-left", Warning, "demi was stopped, and has left what it was writing", "run the same command again to go on, or remove it"},
		{"staging-busy", Note, "demi is writing here now", "wait for it"},
	}
}

// codeOf returns an entry of the table.
func codeOf(code string) Code {
	for _, c := range Codes() {
		if c.Code == code {
			return c
		}
	}
	panic("doctor: no code " + code)
}
