/**
 * The systemd units of a machine. Both fail closed: nothing but `mesh-clean-iptables` removes the redirection, however
 * the agent ends and whatever prevents its next start.
 *
 * - `ctl-agent-redirect` redirects inbound connections before interfaces are configured (network-pre.target,
 *   systemd.special(7)), so that no application is reached past the proxy while the machine boots. It has no settings:
 *   none can be wrong. Outbound connections are not redirected yet, because the system itself needs them to boot
 *   (network file systems, metadata of a cloud), and there is no proxy that would accept them.
 * - `ctl-agent` completes the redirection at each start, as root, then runs the agent. It is restarted without limit: a
 *   unit that systemd has given up on would have to be started by hand.
 */

/** Folder of the files on the machine. */
export const CONFIG_FOLDER = '/etc/ctl-agent';
/** The directory of the agent's state: its certificate, and files for Envoy. */
export const STATE_FOLDER = '/var/lib/ctl-agent';

const PROGRAM = 'node /opt/meshd/dist/ctl-agent.js';

export const AGENT_UNIT = `[Unit]
Description=Proxy of the mesh: ctl-agent and Envoy
Wants=network-online.target
After=network-online.target ctl-agent-redirect.service
StartLimitIntervalSec=0

[Service]
User=mesh-proxy
Group=mesh-proxy
EnvironmentFile=${CONFIG_FOLDER}/cluster.env
StateDirectory=ctl-agent
StateDirectoryMode=0700
WorkingDirectory=${STATE_FOLDER}
# Runs as root. If it fails, existing rules are not removed.
ExecStartPre=+${PROGRAM} mesh-iptables -b '*' -i '*'
ExecStart=${PROGRAM} proxy sidecar --meshConfig ${CONFIG_FOLDER}/mesh.yaml
# SIGTERM to the agent alone: it drains Envoy for TERMINATION_DRAIN_DURATION_SECONDS.
KillMode=mixed
TimeoutStopSec=60
Restart=always
RestartSec=1
LimitNOFILE=1048576
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=read-only

[Install]
WantedBy=multi-user.target
Also=ctl-agent-redirect.service
`;

export const REDIRECT_UNIT = `[Unit]
Description=Redirection of inbound connections to the proxy of the mesh
DefaultDependencies=no
Wants=network-pre.target
Before=network-pre.target
# After the units that replace all rules.
After=local-fs.target nftables.service netfilter-persistent.service firewalld.service ufw.service
# A second run would remove the rules that the agent has added.
RefuseManualStart=yes
RefuseManualStop=yes

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=${PROGRAM} mesh-iptables -b '*'

[Install]
WantedBy=multi-user.target
`;
