package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"harborgate/trials"
)

// maxReward is more than any reward file needs.
const maxReward = 1 << 20

const (
	rewardJSON = "reward.json"
	rewardText = "reward.txt"
)

func isRewardFile(name string) bool { return name == rewardJSON || name == rewardText }

// verdict is what a reward file says.
type verdict struct {
	rewards trials.Rewards
	extras  map[string]json.RawMessage // entries beside the numbers
}

// readReward reads reward.json, or else reward.txt, from the trial's directory.
// Having none is a failure, never a zero.
func (x *run) readReward() (verdict, error) {
	b, err := x.t.Sink.Read("verifier/"+rewardJSON, maxReward)
	parse, name := parseRewardJSON, rewardJSON
	if errors.Is(err, fs.ErrNotExist) {
		b, err = x.t.Sink.Read("verifier/"+rewardText, maxReward)
		parse, name = parseRewardText, rewardText
	}
	shown := x.t.Config.TrialsDir + "/" + x.t.Config.TrialName + "/verifier/"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return verdict{}, x.noReward(shown)
	case err != nil:
		return verdict{}, failed(trials.CauseRewardInvalid, "Failed to read rewards from %s%s: %v", shown, name, err)
	case len(b) == 0:
		return verdict{}, failed(trials.CauseRewardEmpty, "Reward file is empty at %s%s", shown, name)
	}
	v, err := parse(b)
	if err != nil {
		return verdict{}, failed(trials.CauseRewardInvalid, "Failed to parse rewards from %s file %s%s: %v", kindOfFile(name), shown, name, err)
	}
	x.res.VerifierResult = &trials.VerifierResult{Rewards: v.rewards}
	x.res.Harborgate.Extras = v.extras
	return v, nil
}

func kindOfFile(name string) string {
	if name == rewardJSON {
		return "JSON"
	}
	return "text"
}

func failed(cause trials.Cause, format string, args ...any) error {
	return trials.NewFailure(trials.PhaseVerifier, cause, "", fmt.Sprintf(format, args...))
}

// noReward tells a verifier that was killed for memory, and one whose file could
// not be taken, from one that wrote nothing.
func (x *run) noReward(shown string) error {
	if x.verifierStatus.OOMKilled {
		return failed(trials.CauseOutOfMemory, "the verifier was killed because the sandbox ran out of memory, and wrote no reward")
	}
	return failed(trials.CauseRewardMissing, "No reward file found at %sreward.txt or %sreward.json (the test script ended with %s%s)", shown, shown, x.verifierStatus, x.rewardRefused)
}

// decimal is one finite number as people write it: no hex, no underscores, no
// words.
var decimal = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)

// parseRewardText reads a file that is one number.
func parseRewardText(b []byte) (verdict, error) {
	s := strings.TrimSpace(string(b))
	if !decimal.MatchString(s) {
		return verdict{}, fmt.Errorf("it is not one number: %s", quoted(b))
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return verdict{}, fmt.Errorf("the number is not finite: %s", quoted(b))
	}
	return verdict{rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: f}}}}, nil
}

// quoted shows the start of a file, safe to print.
func quoted(b []byte) string {
	const most = 200
	if len(b) <= most {
		return strconv.QuoteToASCII(string(b))
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.QuoteToASCII(string(b[:most])), len(b))
}

// parseRewardJSON reads an object of numbers. Booleans count as 0.0 and 1.0;
// whatever else stands beside at least one number is kept apart.
func parseRewardJSON(b []byte) (verdict, error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return verdict{}, fmt.Errorf("it is not a JSON object: %s", quoted(b))
	}
	v := verdict{rewards: trials.Rewards{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return verdict{}, fmt.Errorf("it is not valid JSON: %w: %s", err, quoted(b))
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return verdict{}, fmt.Errorf("it is not valid JSON: %w: %s", err, quoted(b))
		}
		if err := v.add(key.(string), raw); err != nil {
			return verdict{}, err
		}
	}
	if _, err := dec.Token(); err != nil || trailing(dec) {
		return verdict{}, fmt.Errorf("it is not one JSON object: %s", quoted(b))
	}
	if len(v.rewards) == 0 {
		return verdict{}, fmt.Errorf("it holds no number: %s", quoted(b))
	}
	return v, nil
}

func trailing(dec *json.Decoder) bool {
	_, err := dec.Token()
	return !errors.Is(err, io.EOF)
}

func (v *verdict) add(key string, raw json.RawMessage) error {
	switch string(raw) {
	case "true":
		v.set(key, trials.Number{Value: 1})
		return nil
	case "false":
		v.set(key, trials.Number{})
		return nil
	}
	var n trials.Number
	if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
		if err := n.UnmarshalJSON(raw); err != nil || math.IsInf(n.Value, 0) {
			return fmt.Errorf("%q is not a finite number: %s", key, raw)
		}
		v.set(key, n)
		return nil
	}
	if key == "reward" {
		return fmt.Errorf("%q is not a number: %s", key, quoted(raw))
	}
	if v.extras == nil {
		v.extras = map[string]json.RawMessage{}
	}
	v.extras[key] = raw
	v.rewards = slices.DeleteFunc(v.rewards, func(r trials.Reward) bool { return r.Key == key })
	return nil
}

// set lets the last of equal keys win, as every JSON reader does.
func (v *verdict) set(key string, n trials.Number) {
	delete(v.extras, key)
	for i := range v.rewards {
		if v.rewards[i].Key == key {
			v.rewards[i].Value = n
			return
		}
	}
	v.rewards = append(v.rewards, trials.Reward{Key: key, Value: n})
}
