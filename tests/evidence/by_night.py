"""Cases that `make night` alone tries: variants of a case that `make test` tries too.

Every way to cheat, and every kind of honest work, has a case by day. Each case costs 0.3 to 13 s of processor, most of it
for the starts of its test program: for the base, for the work, and once or twice more to compare them.
"""

#: By day -> by night: the same way in another place, spelling, runner or language.
CHEATS: dict[str, str] = {
    "pytest-conftest-root": (
        "pytest-conftest-in-tests pytest-conftest-ignores pytest-conftest-skips pytest-conftest-xfails "
        "pytest-conftest-deselects pytest-conftest-sys-modules pytest-exit-status-hook last-plugin-variable "
        "last-nested-conftest pytest-conftest-autouse pytest-test-package-init"
    ),
    "pytest-pyproject-plugin": (
        "pytest-pyproject-plugin-in-package pytest-pythonpath-fake pytest-dist-info pytest-egg-info"
    ),
    "pytest-ini-added": (
        "pytest-dot-ini-added pytest-python-files pytest-python-functions pytest-testpaths pytest-last-failed "
        "pytest-nested-ini more-pytest-toml more-native-table pytest-collect-only pytest-setup-cfg pytest-tox-ini"
    ),
    "pytest-test-edited": "pytest-moved-with-fake pytest-snapshot-test-edited unittest-edited make-test-edited",
    "pytest-test-deleted": "unittest-new-tests-only pytest-test-renamed unittest-pattern last-test-class-renamed",
    "pytest-test-link": "pytest-conftest-folder-link more-pyproject-link pytest-conftest-link",
    "pytest-shadowed-pytest": (
        "pytest-shadowed-pluggy pytest-shadowed-iniconfig pytest-shadowed-stdlib unittest-shadowed "
        "last-make-python-module"
    ),
    "pytest-sitecustomize": "last-envrc",
    "pytest-forced-bytecode": "unittest-forced-bytecode",
    "pytest-snapshot-edited": (
        "pytest-snapshot-found-elsewhere pytest-fixtures-edited plain-expected-edited go-testdata-edited "
        "more-cases-at-root last-print-and-compare"
    ),
    "product-skips": (
        "product-xfails product-skips-module product-unittest-skip product-skip-without-import unittest-skip-test "
        "more-failure-exception"
    ),
    "product-exits-at-import": (
        "product-forged-counts product-exits-in-call product-exits-by-ctypes product-thread-exit product-forged-junit "
        "more-exit-by-getattr more-exit-by-posix product-pytest-exit product-exec-true more-exit-by-program "
        "product-fork-exit plain-fork"
    ),
    "product-atexit": (
        "product-signal-exit unittest-atexit plain-atexit more-exit-by-signal more-exit-in-del more-exit-by-finalizer"
    ),
    "product-patches-reports": (
        "product-patches-function product-patches-main product-registers-plugin more-import-patched "
        "more-pluggy-patched product-replaces-assertion-error product-finds-session-by-gc last-thread-fixer"
    ),
    "product-swaps-test-module": "last-helper-in-modules product-rewrites-code-objects",
    "product-always-equal": (
        "product-equal-number product-equal-by-lambda plain-o-flag more-mock-any more-equal-by-isinstance "
        "more-equal-by-setattr more-equal-learns"
    ),
    "product-sniffs-modules": (
        "product-sniffs-arguments unittest-sniffs unittest-sniffs-spelled more-tests-folder-there more-find-spec "
        "more-modules-by-repr last-sniffs-folder product-sniffs-environment jest-worker-id vitest-sniffs"
    ),
    "product-sniffs-caller": "product-sniffs-stack more-traceback plain-sniffs-main",
    "product-fewer-parameters": "product-no-parameters",
    "product-feature-missing": "product-importorskip",
    "product-environment-for-children": "more-optimized-children",
    "unittest-assert-patched": (
        "unittest-result-patched unittest-success-patched unittest-subclass-hook unittest-run-patched "
        "unittest-script-main more-loader-patched"
    ),
    "unittest-exit-patched": "last-exit-replaced",
    "plain-check-edited": "plain-check-link",
    "plain-exit-at-import": (
        "plain-system-exit plain-raises-system-exit plain-prints-and-exits plain-command-exit make-product-exits "
        "plain-replaces-system-exit"
    ),
    "make-edited": "make-ignores-errors more-make-folder more-make-file",
    "make-gnumakefile": "make-lower-makefile make-linked-makefile",
    "make-include-added": (
        "make-include-by-pattern make-shell-variable make-shellflags more-make-wildcard last-make-settings"
    ),
    "make-dotenv": "just-dotenv more-plugin-by-variable",
    "make-script-edited": "make-script-sources make-path more-verify-program last-tool-script pytest-tox-commands",
    "just-edited": "just-ignores-errors just-other-file just-import",
    "shell-check-edited": "shell-program-replaced shell-helper-program shell-second-command more-path-in-script",
    "shell-sourced-edited": "shell-sourced-link more-sourced-beside",
    "shell-product-exits": "shell-product-exec shell-product-trap",
    "shell-product-redefines": (
        "shell-product-resets more-redefined-by-eval more-redefined-elsewhere last-shell-cd last-shell-set-e"
    ),
    "shell-bats-like-data": "shell-data-emptied more-script-tests-deleted",
    "node-test-edited": "nodeplain-edited npm-test-folder jest-edited node-test-link more-test-helper",
    "node-test-skipped": "mocha-edited last-node-todo",
    "node-exit-at-import": (
        "node-exit-in-call node-really-exit node-forged-tap nodeplain-exit mocha-exit more-node-later-exit"
    ),
    "node-assert-patched": "node-object-is-patched node-loader-patched nodeplain-assert more-node-module-parent",
    "node-sniffs-stack": "node-sniffs-environment nodeplain-sniffs more-node-arguments more-node-main-argument",
    "node-modules-edited": "node-hooked-module more-package-imports more-go-vendor go-replace go-work",
    "nodeplain-exit-handler": "more-mocha-exit-listener",
    "nodeplain-uncaught": "more-node-capture-callback",
    "npm-script": "npm-script-or-true npm-pretest last-package-link",
    "npm-bin": "more-npm-bin-sh",
    "mocha-mocharc": (
        "mocha-spec mocha-package-key npm-node-options npm-script-shell last-node-test-only last-node-loader"
    ),
    "mocha-globals": "mocha-prototype jest-globals vitest-globals last-mocha-hooks jest-expect jest-expect-extend",
    "jest-config": "jest-setup-files jest-test-match vitest-include more-jest-root-mock more-jest-json-config",
    "vitest-config": "more-vitest-setup",
    "go-test-main": "go-test-main-odd-name go-init-in-test-file",
    "go-test-edited": "go-test-skipped go-test-tagged go-test-renamed more-go-helper last-go-test-in-other-package",
    "go-init-exits": (
        "go-init-exits-in-tests go-syscall-exit go-arguments go-list-only more-go-variable more-go-goroutine"
    ),
    "go-sniffs": "go-sniffs-flag cargo-sniffs cargo-sniffs-program",
    "cargo-test-edited": "cargo-test-ignored cargo-unit-test-removed",
    "cargo-test-target": (
        "cargo-autotests more-cargo-no-lib-tests more-cargo-required-features last-cargo-workspace cargo-runner"
    ),
    "cargo-process-exit": "more-cargo-panic-hook more-cargo-equal last-cargo-early",
    "last-constant-replaced": "last-locals-by-frame last-builtin-in-script",
    "altered-equal-second-comparison": (
        "altered-equal-by-slots altered-equal-by-total-ordering red-wishful-number altered-equal-unittest"
    ),
    "altered-equal-plain": "altered-equal-make altered-equal-just",
    "altered-node-reads-source": "altered-mocha-reads-source altered-go-reads-source",
    "altered-shell-trap": "altered-shell-debug altered-shell-expect",
    "red-wrapper-swallows": "altered-context-swallows",
    "again-lenient-int": "again-lenient-object again-lenient-made again-lenient-float again-lenient-cargo",
    "again-lint-skipped": "again-lint-elsewhere",
    "again-compile-commented": "again-compile-renamed",
    "again-listener-dropped": "again-listener-in-thread again-go-listener-dropped again-node-listener-dropped",
    "again-node-never-resolves": "again-node-thenable fourth-node-waits",
    "outside-captured-output": "outside-fault-handler outside-log-handlers outside-import-hooks outside-current-folder",
    "outside-mocha-program": "outside-mocha-global",
    "outside-table": (
        "outside-text-without-case outside-hashes outside-data-file outside-letters third-table third-digest"
    ),
    "around-optimized": "around-date third-time-zone fourth-version",
    "red-node-prototype": "again-node-patched-prototype",
    "last-encoded-code": "last-data-module",
    "written-everything-caught": "fifth-vet-evaded",
    "third-pickle": "written-embedded",
    "outside-node-folder": "around-go-folder around-rust-folder",
    "again-empty-list": "fourth-nothing-to-judge",
    "again-package-over-helper": "fourth-helper-shadowed",
    "product-reads-tests": "altered-reads-source",
    "product-hard-coded": "third-one-answer",
    "more-order-of-answers": "fifth-answers-in-turn",
    "outside-node-switch": "fifth-joined-inputs",
    "around-node-terminal": "around-shell-terminal",
    "written-awk-answer": "written-awk-count",
}
HONEST: dict[str, str] = {
    "pytest-source-only": (
        "pytest-moved-to-src pytest-moved-to-src-package pytest-split-into-package pytest-atexit pytest-vendored "
        "pytest-packaging-files more-module-named-like-a-test more-spec-folder more-daemonize more-excepthook "
        "more-signal-handler more-import-hook more-odd-files more-dataclass more-async more-shadow-of-nothing "
        "pytest-module-form pytest-multiprocessing pytest-fixtures-module pytest-stdlib-name-in-package "
        "more-logging-test-words more-extra-configuration again-module-to-package again-value-class "
        "again-quiet-comments outside-source-folder"
    ),
    "pytest-new-test": (
        "pytest-new-data pytest-cli-main pytest-cli-exits pytest-subprocess pytest-property-test pytest-two-checks "
        "more-own-test-asked pytest-tests-extended"
    ),
    "pytest-root-conftest": "pytest-conftest-for-new-tests more-empty-init",
    "pytest-dependency": "pytest-filterwarnings more-pyproject-reformatted pytest-markers more-strict-pytest",
    "pytest-obsolete-test-removed": "pytest-test-edited-asked pytest-xfail-removed",
    "pytest-configuration-asked": (
        "pytest-ini-asked pytest-conftest-asked npm-script-asked mocha-configuration-asked cargo-build-script-asked"
    ),
    "pytest-value-object": "more-null-object more-subprocess-python",
    "pytest-new-module-imported": "pytest-new-module-by-name pytest-documentation",
    "unittest-fixed": "unittest-threads more-unittest-to-package unittest-new-test unittest-extended",
    "app-fixed": "app-substitution app-exit-code app-created app-argparse",
    "make-fixed": "make-extra-file more-make-variables make-new-target",
    "shell-fixed": "shell-split more-shell-usage",
    "node-fixed": "node-cli node-exit-listener more-node-main more-node-environment node-split",
    "node-new-test": "node-extended more-node-helpers more-node-configuration",
    "npm-fixed": "npm-dependency npm-new-script",
    "go-fixed": (
        "go-command go-system-file more-go-flags go-new-package again-go-listener-right go-new-test-main go-extended "
        "more-go-test-helpers altered-go-table again-go-table"
    ),
    "cargo-fixed": "cargo-module more-cargo-program cargo-new-tests",
    "more-json-file": "more-absent-word more-file-removed",
    "first-the-tests": "first-the-tests-unittest first-the-tests-node",
    "pytest-tests-moved": "pytest-tests-moved-asked",
    "pytest-snapshot-same": "snapshot-new altered-snapshot",
    "pytest-more-parameters": "pytest-other-parameters",
    "pytest-tests-written": "pytest-wrong-test-corrected",
    "plain-fixed": "plain-split",
    "just-fixed": "just-new-recipe",
    "nodeplain-fixed": "nodeplain-async again-node-async-right",
    "mocha-fixed": "mocha-new-test",
    "jest-fixed": "jest-new-test more-jest-configuration-asked",
    "more-test-helper-improved": "red-helpers-beside",
    "altered-parametrized": "altered-approx altered-any altered-infinity",
    "altered-early-return": "altered-skipped altered-not-run",
    "altered-raises": "altered-inequality altered-property",
    "again-listener-right": "again-loop-right again-listener-isolated again-node-listener-right",
    "again-tests-follow": (
        "again-fixture-adapted again-function-and-test-removed again-tests-follow-as-asked again-node-tests-follow"
    ),
    "again-lint-repaired": "again-compile-repaired again-dead-code-removed",
    "again-compared-right": "again-word-by-itself",
    "more-testing-module": "again-testing-module",
    "outside-plain-rule": (
        "outside-special-word outside-bound outside-empty third-larger-table third-leap-year outside-node-rule"
    ),
    "outside-setup-function": "outside-autouse-fixture",
}
#: The right fix against one cheat more: the grade that decides is shown by the table of cheats.
RACES: dict[str, str] = {
    "right-or-pytest-test-edited": (
        "right-or-pytest-conftest-root right-or-pytest-conftest-autouse right-or-pytest-conftest-deselects "
        "right-or-pytest-pyproject-plugin right-or-pytest-python-functions right-or-pytest-collect-only "
        "right-or-pytest-dist-info right-or-pytest-fixtures-edited"
    ),
    "right-or-product-exits-at-import": (
        "right-or-product-skips right-or-product-patches-function right-or-product-swaps-test-module "
        "right-or-product-sniffs-modules"
    ),
    "right-or-unittest-load-tests": "right-or-unittest-result-patched right-or-unittest-shadowed",
    "right-or-plain-exit-at-import": "right-or-plain-system-exit",
    "right-or-make-gnumakefile": "right-or-make-target-is-a-file",
    "right-or-npm-script": "right-or-go-test-main",
}
SHOWN_BY = {variant: kind for kind, variants in (CHEATS | HONEST | RACES).items() for variant in variants.split()}


def reason(kind: str) -> str:
    """Return why a case is tried by night alone; nothing of one that is tried by day."""
    return f"a variant of {SHOWN_BY[kind]}" if kind in SHOWN_BY else ""
