package main

import (
	"fmt"
	"math"
)

// The classes of the tables.
const (
	embeddings  = "embeddings"
	attention   = "attention"
	mlp         = "MLP"
	heads       = "heads"
	biases      = "biases"
	layerNorm   = "LayerNorm"
	convolution = "convolutions"
	linear      = "fc"
	batchNorm   = "BatchNorm weight, bias"
	runningMean = "running_mean"
	runningVar  = "running_var"
	counters    = "num_batches_tracked"
)

// A builder collects the tensors of an architecture.
type builder struct {
	weights []weight
	special []int64 // outlier channels of what is as wide as the model
	width   int64
}

func (b *builder) add(class, name string, l law, shape ...int64) {
	b.weights = append(b.weights, weight{name, class, shape, l})
}

// outliers returns l with the outlier channels of the model multiplied by
// factor; stride is how many elements in a row are of one channel.
func (b *builder) outliers(l law, factor float64, stride int64) law {
	l.special = &channels{b.special, factor, stride, b.width}
	return l
}

// norm adds a LayerNorm. Its scaling factors and biases are what has outliers
// (Kovaleva et al., BERT Busters, arXiv:2105.06990).
func (b *builder) norm(scale, shift string) {
	b.add(layerNorm, scale, b.outliers(law{normal, 1, 0.05, nil}, 8, 1), b.width)
	b.add(layerNorm, shift, b.outliers(law{normal, 0, 0.05, nil}, 8, 1), b.width)
}

// bert returns the tensors of bert-base-uncased as its model.safetensors has
// them: the names of TensorFlow for LayerNorm, without the decoder, which is
// the word embeddings.
func bert() []weight {
	const d, inner, vocabulary, layers = 768, 3072, 30522, 12
	b := &builder{special: []int64{308, 381}, width: d}
	init := law{normal, 0, 0.02, nil} // initializer_range
	dense := func(class, name string, out, in int64) {
		b.add(class, name+".weight", init, out, in)
		b.add(biases, name+".bias", init, out)
	}
	b.add(embeddings, "bert.embeddings.word_embeddings.weight", init, vocabulary, d)
	b.add(embeddings, "bert.embeddings.position_embeddings.weight", init, 512, d)
	b.add(embeddings, "bert.embeddings.token_type_embeddings.weight", init, 2, d)
	b.norm("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.beta")
	for i := range layers {
		layer := fmt.Sprintf("bert.encoder.layer.%d.", i)
		for _, name := range []string{"query", "key", "value"} {
			dense(attention, layer+"attention.self."+name, d, d)
		}
		dense(attention, layer+"attention.output.dense", d, d)
		b.norm(layer+"attention.output.LayerNorm.gamma", layer+"attention.output.LayerNorm.beta")
		dense(mlp, layer+"intermediate.dense", inner, d)
		b.add(mlp, layer+"output.dense.weight", b.outliers(init, 4, inner), d, inner)
		b.add(biases, layer+"output.dense.bias", init, d)
		b.norm(layer+"output.LayerNorm.gamma", layer+"output.LayerNorm.beta")
	}
	dense(heads, "bert.pooler.dense", d, d)
	b.add(biases, "cls.predictions.bias", init, vocabulary)
	dense(heads, "cls.predictions.transform.dense", d, d)
	b.norm("cls.predictions.transform.LayerNorm.gamma", "cls.predictions.transform.LayerNorm.beta")
	dense(heads, "cls.seq_relationship", 2, d)
	return b.weights
}

// gpt3 returns the tensors of GPT-3 with the dimensions of Brown et al.,
// arXiv:2005.14165, table 2.1, and the names and layouts of GPT-2 (matrices are
// stored as in, out; the head is the word embeddings). At most rows rows of
// each matrix are taken.
func gpt3(layers []int, rows int64) []weight {
	const d, vocabulary, context, depth = 12288, 50257, 2048, 96
	b := &builder{special: []int64{101, 1504, 4093, 7777, 9001, 11900}, width: d}
	init := law{normal, 0, 0.02, nil}
	residual := law{normal, 0, 0.02 / math.Sqrt(2*depth), nil}
	matrix := func(class, name string, l law, in, out int64) {
		b.add(class, name+".weight", l, min(rows, in), out)
		b.add(biases, name+".bias", init, out)
	}
	b.add(embeddings, "wte.weight", init, min(rows, vocabulary), d)
	b.add(embeddings, "wpe.weight", law{normal, 0, 0.01, nil}, min(rows, context), d)
	for _, i := range layers {
		layer := fmt.Sprintf("h.%d.", i)
		b.norm(layer+"ln_1.weight", layer+"ln_1.bias")
		matrix(attention, layer+"attn.c_attn", init, d, 3*d)
		matrix(attention, layer+"attn.c_proj", residual, d, d)
		b.norm(layer+"ln_2.weight", layer+"ln_2.bias")
		matrix(mlp, layer+"mlp.c_fc", init, d, 4*d)
		matrix(mlp, layer+"mlp.c_proj", b.outliers(residual, 4, 1), 4*d, d)
	}
	b.norm("ln_f.weight", "ln_f.bias")
	return b.weights
}

// resnet50 returns the tensors of torchvision's resnet50.
func resnet50() []weight {
	b := &builder{}
	b.conv("conv1", "bn1", 64, 3, 7)
	in := int64(64)
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := int64(64) << stage
		for i := range blocks {
			block := fmt.Sprintf("layer%d.%d.", stage+1, i)
			b.conv(block+"conv1", block+"bn1", width, in, 1)
			b.conv(block+"conv2", block+"bn2", width, width, 3)
			b.conv(block+"conv3", block+"bn3", 4*width, width, 1)
			if i == 0 {
				b.conv(block+"downsample.0", block+"downsample.1", 4*width, in, 1)
			}
			in = 4 * width
		}
	}
	init := law{uniform, 0, 1 / math.Sqrt(2048), nil} // torch.nn.Linear
	b.add(linear, "fc.weight", init, 1000, 2048)
	b.add(linear, "fc.bias", init, 1000)
	return b.weights
}

// conv adds a convolution without bias, initialised as torchvision does it
// (Kaiming, fan out), and its BatchNorm. In those of 64 channels two are dead:
// nothing comes through them, their weights and variances have decayed, as
// those of two in 32 did in a published network (pretrained-models.pytorch#99).
func (b *builder) conv(name, bn string, out, in, kernel int64) {
	weights := law{normal, 0, math.Sqrt(2 / float64(out*kernel*kernel)), nil}
	variance := law{logNormal, 0.1, 1, nil}
	if out == 64 {
		dead := []int64{11, 13}
		weights.special = &channels{dead, 1e-8, in * kernel * kernel, out}
		variance.special = &channels{dead, 1e-12, 1, out}
	}
	b.add(convolution, name+".weight", weights, out, in, kernel, kernel)
	b.add(batchNorm, bn+".weight", law{normal, 1, 0.2, nil}, out)
	b.add(batchNorm, bn+".bias", law{normal, 0, 0.2, nil}, out)
	b.add(runningMean, bn+".running_mean", law{normal, 0, 0.3, nil}, out)
	b.add(runningVar, bn+".running_var", variance, out)
	b.add(counters, bn+".num_batches_tracked", law{constant, 450360, 0, nil})
}
