# Sourced by the scripts beside it, after machine.bash: a RabbitMQ node of our own, apart from any other on the machine. It has
# its own name, ports, data, cookie and epmd, and needs no root. All of it stands in $node_dir:
#
#	server    starts the node in the foreground, again too: same port, same data
#	ctl       rabbitmqctl for this node
#	pid       the pid of the running node
#	log/      its log
#
# node_url is its AMQP URL. node_stop ends it and removes the folder; call it from a trap on EXIT.

node_dir='' node_url='' node_server='' node_epmd=''

# node_bin prints the folder with RabbitMQ's own scripts. Those of Debian in /usr/sbin insist on root and on the system's node.
node_bin() {
	local dir
	for dir in /usr/lib/rabbitmq/bin /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin "$(dirname "$(command -v rabbitmq-server || echo /none/)")"; do
		if [[ -x $dir/rabbitmq-server && -x $dir/rabbitmqctl ]]; then
			echo "$dir"
			return
		fi
	done
	return 1
}

# node_available makes sure that RabbitMQ is installed.
node_available() { node_bin >/dev/null || { apt_install rabbitmq-server procps && node_bin >/dev/null; }; }

# node_start [ADVANCED_CONFIG] starts the node and returns when it answers. What it started is there for node_stop even if it
# fails.
node_start() {
	local advanced=${1-} bin port epmd_port dist_port
	bin=$(node_bin) || return
	port=$(free_port) && epmd_port=$(free_port) && dist_port=$(free_port) || return
	node_dir=$(mktemp -d "${TMPDIR:-/tmp}/lastcall-node.XXXXXX") || return
	node_url=amqp://guest:guest@127.0.0.1:$port/

	mkdir "$node_dir"/{data,log,generated}
	: >"$node_dir/rabbitmq.conf"
	: >"$node_dir/rabbitmq-env.conf"
	echo '[].' >"$node_dir/enabled_plugins"
	if [[ $advanced ]]; then
		cp "$advanced" "$node_dir/advanced.config" || return
	else
		echo '[].' >"$node_dir/advanced.config"
	fi
	cat >"$node_dir/env" <<-END
		export HOME=$node_dir
		export ERL_EPMD_PORT=$epmd_port ERL_EPMD_ADDRESS=127.0.0.1
		export RABBITMQ_NODENAME=lastcall-$$-$port@localhost
		export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$port RABBITMQ_DIST_PORT=$dist_port
		export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
		export RABBITMQ_MNESIA_BASE=$node_dir/data RABBITMQ_LOG_BASE=$node_dir/log RABBITMQ_PID_FILE=$node_dir/pid
		export RABBITMQ_CONF_ENV_FILE=$node_dir/rabbitmq-env.conf RABBITMQ_CONFIG_FILE=$node_dir/rabbitmq.conf
		export RABBITMQ_ADVANCED_CONFIG_FILE=$node_dir/advanced.config RABBITMQ_GENERATED_CONFIG_DIR=$node_dir/generated
		export RABBITMQ_ENABLED_PLUGINS_FILE=$node_dir/enabled_plugins
		unset NOTIFY_SOCKET RABBITMQ_NODE_ONLY RABBITMQ_USE_LONGNAME RABBITMQ_LOGS
		cd $node_dir
	END
	printf '#!/usr/bin/env bash\n. %q\nexec %q "$@"\n' "$node_dir/env" "$bin/rabbitmqctl" >"$node_dir/ctl"
	printf '#!/usr/bin/env bash\n. %q\nexec %q "$@"\n' "$node_dir/env" "$bin/rabbitmq-server" >"$node_dir/server"
	chmod +x "$node_dir"/{ctl,server}

	# Erlang would start an epmd by itself, and leave it behind.
	epmd -port "$epmd_port" -address 127.0.0.1 >/dev/null 2>&1 </dev/null &
	node_epmd=$!
	"$node_dir/server" >"$node_dir/log/console" 2>&1 </dev/null &
	node_server=$!
	for _ in {1..600}; do
		if amqp_answers 127.0.0.1 "$port"; then
			return
		fi
		if ! kill -0 "$node_server" 2>/dev/null; then
			break
		fi
		sleep 0.2
	done
	say 'RabbitMQ did not start; the last lines of its log:'
	tail -n 30 "$node_dir"/log/* >&2
	return 1
}

# node_pids prints the pids of the node, restarted by whomever, of calls of ctl that hang, and of the script that starts it. The
# pid file would not do: it is gone as soon as the node begins to stop.
node_pids() {
	pgrep -f -- "-home $node_dir " || true
	jobs -rp | grep -Fx -- "$node_server" || true
}

# node_stop ends the node and all that belongs to it. It may be called when there is none.
node_stop() {
	[[ $node_dir ]] || return 0
	local signal pids
	for signal in TERM KILL; do
		pids=$(node_pids)
		[[ $pids ]] || break
		[[ $signal == TERM ]] || say 'RabbitMQ does not end, killing it'
		# shellcheck disable=SC2086 # one or several
		kill -"$signal" $pids 2>/dev/null || true
		for _ in {1..100}; do
			[[ $(node_pids) ]] || break
			sleep 0.2
		done
	done
	[[ -z $node_epmd ]] || kill "$node_epmd" 2>/dev/null || true
	rm -rf "$node_dir"
	node_dir='' node_server='' node_epmd=''
}
