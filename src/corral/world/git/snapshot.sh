# Run beside the agent, in a box of its own: what its workspace holds now becomes a commit and leaves as a bundle.
# The agent's own .git is neither read for settings nor written to.   usage: sh snapshot.sh FOLDER BASE
place=$1 base=$2
git() {
    command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
        -c user.name=Corral -c user.email=corral@localhost -c advice.addEmbeddedRepo=false \
        -c core.excludesFile=/dev/null \
        --git-dir="$place/git" --work-tree=. "$@"
}
rm -f "$place/git/"*.lock "$place/git/refs/heads/snapshot.lock" "$place/snapshot.bundle.lock" # of one that was ended
rm -f "$place/snapshot.bundle"
add() { git add --all --ignore-errors 2>&1; } # a file that vanishes meanwhile is no reason to lose the others
rules="$place/git/info/attributes"
said=$(add)
case $said in *"fatal: "*encod*) # rules of the agent's that its files do not fit: they are kept as they are
    mkdir -p "$place/git/info" && echo '* !working-tree-encoding' >"$rules"
    said=$(add)
    rm -f "$rules"
    ;;
esac
case ${said##*fatal: } in "$said" | "adding files failed"*) ;; *) # nothing was added: this is not what is there
    echo "$said" >&2
    exit 3
    ;;
esac
tree=$(git write-tree) || exit 3
last=$(cat "$place/last" 2>/dev/null || git rev-parse ${base:+"$base^{tree}"} 2>/dev/null)
[ "$tree" = "$last" ] && exit 0
commit=$(git commit-tree "$tree" ${base:+-p "$base"} -m "a snapshot") || exit 3
git update-ref refs/heads/snapshot "$commit" || exit 3
git bundle create -q "$place/snapshot.bundle" refs/heads/snapshot ${base:+"^$base"} || exit 3
echo "$tree" >"$place/last"
