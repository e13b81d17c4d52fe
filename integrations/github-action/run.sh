#!/usr/bin/env bash
# One step of a workflow: run a task, or look after a pull request. All input comes from the environment (action.yml).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
document=$out/run.json

fail() { # what is wrong, what helps
  printf '::error::%s\n' "$1" >&2
  printf 'hint: %s\n' "$2" >&2
  exit 2
}

field() { python3 "$here/document.py" "$document" "$1"; }

# Add one option for each line of a variable.
each_line() { # option, text
  local line
  while IFS= read -r line; do
    line=${line%$'\r'}
    [ -z "${line// /}" ] || words+=("$1" "$line")
  done <<< "$2"
}

allow() { python3 "$here/forge.py" allow "$INPUT_ACTOR" "${INPUT_USERS:-}" || exit 2; }

# A comment on an issue starts a run, with the rest of it as the task; one on a pull request of Corral, a look at it.
answer_comment() {
  local first rest word=${INPUT_WORD:-/corral}
  read -r first _ <<< "${INPUT_COMMENT:-}" || true
  if [ "$first" != "$word" ]; then
    echo "the comment does not begin with $word: nothing to do" >&2
    exit 0
  fi
  [ -n "${INPUT_ACTOR:-}" ] || fail "nobody asks" "set the input actor to the author of the comment"
  allow
  case ${INPUT_ISSUE:-} in
    */pull/*)
      INPUT_BRANCH=$(python3 "$here/forge.py" branch "$INPUT_ISSUE") || exit 2
      follow
      ;;
    *)
      rest=${INPUT_COMMENT#*"$word"}
      INPUT_TASK="${INPUT_TASK:-}${INPUT_TASK:+$'\n\n'}${rest#"${rest%%[![:space:]]*}"}"
      run_task
      ;;
  esac
}

run_task() {
  local words=(run) code=0
  [ -n "${INPUT_TASK:-}${INPUT_ISSUE:-}" ] || fail "there is no task" "set the input task or issue"
  [ -z "${INPUT_ACTOR:-}" ] || allow
  words+=(--json)
  [ -z "${INPUT_ISSUE:-}" ] || words+=(--issue "$INPUT_ISSUE")
  [ -z "${INPUT_BUDGET_USD:-}" ] || words+=(--budget "$INPUT_BUDGET_USD")
  [ -z "${INPUT_TIMEOUT:-}" ] || words+=(--timeout "$INPUT_TIMEOUT")
  each_line --agent "${INPUT_AGENTS:-}"
  each_line --check "${INPUT_CHECKS:-}"
  # The task goes through stdin: it may be long, begin with a dash, or hold anything.
  if [ -n "${INPUT_TASK:-}" ]; then
    corral "${words[@]}" - <<< "$INPUT_TASK" > "$document" || code=$?
  else
    corral "${words[@]}" < /dev/null > "$document" || code=$?
  fi
  [ -s "$document" ] || exit "$code" # a bad request; its error is on stderr
  if [ "$code" -eq 0 ] && [ "${INPUT_PULL_REQUEST:-false}" = true ]; then
    corral merge "$(field run)" --strategy pr --json > "$document.merged" || code=$?
    [ ! -s "$document.merged" ] || mv "$document.merged" "$document"
  elif [ "$code" -ne 0 ] && [ -n "${INPUT_ISSUE:-}" ] && [ "${INPUT_PULL_REQUEST:-false}" = true ]; then
    python3 "$here/forge.py" tell "$INPUT_ISSUE" "Corral did not open a pull request: run \`$(field run)\` is $(field status)$(field because)."
  fi
  return "$code"
}

follow() {
  local run=${INPUT_BRANCH#corral/merged/} code=0
  [[ $run =~ ^[0-9a-z]+$ ]] || fail "the branch \`${INPUT_BRANCH:-}\` is not one of Corral" "set the input branch to corral/merged/RUN"
  corral follow "$run" --once --json > "$document" || code=$?
  [ -s "$document" ] || exit "$code"
  return "$code"
}

export CORRAL_HOME=${CORRAL_HOME:-${RUNNER_TEMP:?}/corral}
mkdir -p "$CORRAL_HOME"
# A GitHub of one's own: Corral sends GH_TOKEN to github.com alone.
[ "${GITHUB_SERVER_URL:-https://github.com}" = https://github.com ] || export GH_ENTERPRISE_TOKEN=${GH_TOKEN:-}
code=0
case ${INPUT_COMMAND:-run} in
  run) run_task || code=$? ;;
  follow) follow || code=$? ;;
  comment) answer_comment || code=$? ;;
  *) fail "the command \`$INPUT_COMMAND\` is not known" "run, follow or comment" ;;
esac
for name in run-id status cost-usd branch pull-request; do
  printf '%s=%s\n' "$name" "$(field "$name")" >> "${GITHUB_OUTPUT:-/dev/stderr}"
done
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || field summary >> "$GITHUB_STEP_SUMMARY"
exit "$code"
