/**
 * The systemd units of a machine. The redirection is a unit of its own, as root: it begins before the agent, and ends
 * when the agent has been stopped and not when it is only restarted (StopWhenUnneeded, systemd.unit(5)), so that a
 * crash lets nothing past the proxy.
 */

/** Folder of the files on the machine. */
export const CONFIG_FOLDER = '/etc/ctl-agent';
/** Folder of what the agent keeps: its certificate, and files for Envoy. */
export const STATE_FOLDER = '/var/lib/ctl-agent';

const PROGRAM = 'node /opt/meshd/dist/ctl-agent.js';

export const AGENT_UNIT = `[Unit]
Description=Proxy of the mesh: ctl-agent and Envoy
Wants=network-online.target
After=network-online.target ctl-agent-redirect.service
Requires=ctl-agent-redirect.service

[Service]
User=mesh-proxy
Group=mesh-proxy
EnvironmentFile=${CONFIG_FOLDER}/cluster.env
StateDirectory=ctl-agent
StateDirectoryMode=0700
WorkingDirectory=${STATE_FOLDER}
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
`;

export const REDIRECT_UNIT = `[Unit]
Description=Redirection of traffic to the proxy of the mesh
After=network-online.target
Wants=network-online.target
StopWhenUnneeded=yes

[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=${CONFIG_FOLDER}/cluster.env
ExecStart=${PROGRAM} mesh-iptables -b '*' -i '*'
ExecStop=${PROGRAM} mesh-clean-iptables
`;
