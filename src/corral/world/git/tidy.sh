# Prepare a work tree that an agent left for git: what git would wait for, cannot read or cannot store goes first.
# usage: tidy EXCLUDE LEFT           paths that are left out are listed in the file LEFT
MOST_FILE_KB=2097152
# Look once for anything that needs care here: most work needs none, and then nothing more is looked for.
# usage: is_odd            true where `tidy`, `unnest` or `unlock` may have something to do
is_odd() {
    find . \( -type d ! -perm -700 -prune -o -type p -o -type s -o -type b -o -type c -o \
        \( -perm -4000 -o -perm -2000 \) ! -type l -o -type f -size +${MOST_FILE_KB}k -o \
        -name .git ! -path ./.git -o -path './.git/*.lock' \) -print 2>/dev/null | { read -r _; }
}

tidy() {
    exclude=$1 left=$2
    # Folders without the rights of their owner: `find` could not enter them, and git could not write its objects.
    [ -z "$(find . -type d ! -perm -700 -prune -print 2>/dev/null | head -n 1)" ] || chmod -R u+rwX . 2>/dev/null
    # A pipe in the place of .gitattributes blocks git for ever. Nobody else is to run these files as their owner.
    find . \( -type p -o -type s -o -type b -o -type c \) -exec rm -f {} + 2>/dev/null
    find . \( -perm -4000 -o -perm -2000 \) ! -type l -exec chmod ug-s {} + 2>/dev/null
    # A bundle holds 4 GB at most; larger files, also sparse ones, would only use up the time for all the others.
    find . -path ./.git -prune -o -type f -size +${MOST_FILE_KB}k -print 2>/dev/null | while IFS= read -r large; do
        rule=$(printf '%s\n' "$large" | sed 's/^\.//; s/[][\\*?! ]/\\&/g')
        is_ignored "$large" "$rule" || echo "larger than $((MOST_FILE_KB / 1048576)) GB: $large" >>"$left"
        printf '%s\n' "$rule" >>"$exclude"
    done
}

# Whether git leaves a file out by other rules than ours, or has it already: then nothing of the work is lost.
# For the first ones only: there may be thousands, and no more than 20 are reported.
asked=0
is_ignored() {
    asked=$((asked + 1))
    [ $asked -le 20 ] && ! grep -Fxq -- "$2" "$exclude" || return 1
    git_here check-ignore -q -- "$1" || git_here ls-files --error-unmatch -- "$1"
} </dev/null >/dev/null 2>&1

# A repository that the agent made inside is not ours to keep as one: its files are the work.
# usage: unnest [./SUBMODULE/.git ...]     these stay
unnest() {
    known=" $* "
    find . -mindepth 2 -name .git -prune 2>/dev/null | {
        count=0
        while IFS= read -r inner; do
            case $known in *" $inner "*) continue ;; esac
            count=$((count + 1))
            [ $count -gt 100 ] || { mkdir -p "$HOME/.nested" && mv "$inner" "$(mktemp -d -p "$HOME/.nested")"; } 2>/dev/null ||
                rm -rf "$inner"
        done
        [ $count -le 100 ] || find . -mindepth 2 -name .git -prune -exec rm -rf {} + 2>/dev/null
    }
}
