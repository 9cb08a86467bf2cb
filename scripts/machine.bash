# Sourced by the scripts beside it: what they need from the machine. Messages go to stderr, each with the script's name.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$@"
	exit 1
}

# apt_install PACKAGE… installs Debian packages and starts none of their services. It fails where there is no apt-get, or
# neither root nor a sudo that asks for nothing.
apt_install() {
	command -v apt-get >/dev/null || return 1
	local -a as_root=()
	if ((EUID != 0)); then
		sudo -n true 2>/dev/null || return 1
		as_root=(sudo -n)
	fi
	say "installing $* with apt-get"
	# invoke-rc.d and deb-systemd-invoke ask this file, and 101 means no.
	local policy=/usr/sbin/policy-rc.d made_policy='' failed=0
	if [[ ! -e $policy ]]; then
		"${as_root[@]}" install -m 755 /dev/stdin "$policy" <<<$'#!/bin/sh\nexit 101' && made_policy=yes
	fi
	{
		"${as_root[@]}" apt-get update -q &&
			"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
				-o DPkg::Lock::Timeout=300 "$@"
	} >&2 </dev/null || failed=1
	if [[ $made_policy ]]; then
		"${as_root[@]}" rm -f "$policy"
	fi
	return "$failed"
}

# port_answers HOST PORT: something accepts connections there.
port_answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# amqp_answers HOST PORT: what listens there opens an AMQP 0-9-1 connection, that is, answers the protocol header with
# connection.start (a method frame on channel 0, class 10, method 10) within 5 s.
amqp_answers() {
	local frame
	frame=$(
		exec 2>/dev/null 3<>"/dev/tcp/$1/$2" || exit
		printf 'AMQP\0\0\11\1' >&3
		timeout 5 head -c 11 <&3 | od -An -v -tx1
	) || return 1
	[[ $frame == ' 01 00 00 '*' 00 0a 00 0a' ]]
}

# free_port prints a TCP port of 127.0.0.1 where nobody listens, below those that the kernel gives to clients.
free_port() {
	local port
	for _ in {1..100}; do
		port=$((20000 + RANDOM % 12000))
		if ! port_answers 127.0.0.1 "$port"; then
			echo "$port"
			return
		fi
	done
	say 'no free TCP port between 20000 and 32000 on 127.0.0.1'
	return 1
}
