"""Paths that no broad pattern reaches: keys, logins, histories and the sockets of those who hold them."""

from __future__ import annotations

#: Below a person's home.
AT_HOME = (
    ".ssh", ".gnupg", ".pki", ".password-store", ".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".git-credentials",
    ".config/git/credentials",
    # clouds, clusters, containers
    ".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud", ".config/rclone", ".s3cfg", ".boto", ".kube",
    ".docker", ".config/containers/auth.json", ".terraform.d", ".terraformrc", ".vault-token", ".config/sops",
    ".config/age",
    # forges and registries
    ".config/gh", ".config/glab-cli", ".config/hub", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pip",
    ".pip", ".config/uv/credentials.toml", ".local/share/uv/credentials", ".cargo/credentials*", ".gem/credentials",
    ".m2/settings*.xml", ".gradle/gradle.properties", ".composer/auth.json", ".config/composer/auth.json",
    ".nuget/NuGet", ".config/huggingface", ".cache/huggingface/token", ".kaggle",
    # agents' own logins
    ".claude", ".claude.json", ".codex", ".gemini", ".qwen", ".copilot", ".config/github-copilot", ".config/corral",
    ".local/share/opencode", ".config/opencode", ".pi", ".aider*",
    # browsers, mail, messengers
    ".mozilla", ".thunderbird", ".config/google-chrome*", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge*", ".config/vivaldi", ".config/opera", ".librewolf", ".zen", ".var/app", "snap/*/common",
    ".config/Signal", ".config/Slack", ".config/discord", "Library/Application Support", "Library/Cookies",
    "Library/Safari", "Library/Mail", "Library/Messages",
    # keyrings, wallets, histories
    ".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains", ".config/1Password", ".config/op",
    ".config/Bitwarden*", ".electrum", ".bitcoin", ".ethereum", ".*_history", ".history", ".histfile", ".lesshst",
    ".viminfo", ".local/share/fish", ".zsh_sessions", ".python_history", ".psql_history", ".pgpass", ".my.cnf",
    ".mylogin.cnf", ".smbcredentials", ".env",
)  # fmt: skip

#: Anywhere: sockets that do what their owner may do, and the system's own.
ELSEWHERE = (
    "/run/user", "/run/docker.sock", "/var/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman",
    "/run/dbus", "/var/run/dbus", "/run/systemd", "/var/lib/docker",
    "/tmp/ssh-*", "/tmp/.X11-unix",  # noqa: S108 -- others' sockets lie there
    "/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*", "/etc/ssl/private",
    "/etc/kubernetes", "/etc/rancher", "/var/lib/kubelet", "/run/secrets", "/var/run/secrets",
)  # fmt: skip


def patterns(home: str) -> list[str]:
    """Return all of them for one person, as patterns of absolute paths."""
    return [f"{home.rstrip('/')}/{name}" for name in AT_HOME] + list(ELSEWHERE)
