package demi

import (
	"fmt"
	"regexp"
	"strings"
)

// A Preset is a named list of rules for a kind of model: of tensors that cost
// few bytes and whose programs want them wide. A tensor that one of its rules
// matches is never narrowed; it may be widened. Rules of the caller's own come
// first.
type Preset struct {
	Name  string
	Doc   string // one sentence
	Rules []Rule // all of target Keep
}

// NoPreset is the name of the Preset without rules, the default.
const NoPreset = "none"

// Presets returns all presets, the default first. The precision guide names
// the source of each rule.
func Presets() []Preset {
	return []Preset{
		{NoPreset, "No rules.", nil},
		{"llm", "Language models: routers, attention sinks, hyper-connections, norms, decays of state spaces and frequencies are not narrowed.", keepAll(llmNames)},
		{"diffusion", "Diffusion models: norms, time embeddings, scale-shift tables, the noise schedule and a VAE in the same file are not narrowed.", keepAll(diffusionNames)},
	}
}

// ParsePreset returns the preset of a name.
func ParsePreset(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if strings.EqualFold(name, p.Name) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("unknown preset %q (%s)", name, strings.Join(names, ", "))
}

// match returns the first rule that matches a name.
func (p *Preset) match(name string) (r Rule, ok bool) {
	for _, r := range p.Rules {
		if r.Name.MatchString(name) {
			return r, true
		}
	}
	return Rule{}, false
}

func keepAll(names []*regexp.Regexp) (rules []Rule) {
	for _, re := range names {
		rules = append(rules, Rule{re, Keep})
	}
	return rules
}

func compileAll(list ...string) (names []*regexp.Regexp) {
	for _, s := range list {
		names = append(names, regexp.MustCompile(s))
	}
	return names
}

// normNames matches the weights of norms, not the matrices of adaptive ones
// such as norm1.linear.weight of Flux.
const normNames = `(?i)norm(_[0-9a-z]+|[0-9]+)*\.(weight|bias|scale|gamma|beta)$`

var llmNames = compileAll(
	`(^|\.)(e_score_correction_bias|expert_bias)$`,
	`(^|\.)(gate|shared_expert_gate|[a-z_]*router)(\.[a-z]+)?\.(weight|bias)$`,
	`(^|[._])sinks?(_bias)?$`,
	`(^|[._])hc_(attn|ffn|head)_|(^|\.)(attn_hc|ffn_hc|hc_head)\.`,
	`(^|\.)indexer\.(scorer\.)?weights_proj\.`,
	`(^|\.)(A_log|D|dt_bias|dt_proj\.bias|time_decay|time_first)$`,
	`(^|\.)inv_freq$`,
	normNames, `(^|\.)ln_[0-9a-z]+\.(weight|bias)$`,
)

var diffusionNames = compileAll(
	`(^|[._])scale_shift_table(_|$)|(^|\.)modulation$`,
	`(^|[._])(time_?(step_)?embed(der|dings?)?|t_embedder|time_in)\.`,
	normNames,
	`(^|\.)(learnable_pos_embed|history_key_scale)(\.|$)`,
	`^(state_dict\.)?([a-z0-9_]*alphas_cumprod(_prev)?|betas|posterior_[a-z0-9_]+|lvlb_weights|sigmas)$`,
	`(^|\.)(latents?_(mean|std)|per_channel_statistics)(\.|$)`,
	`^(state_dict\.)?(first_stage_model|vae)\.`,
)
