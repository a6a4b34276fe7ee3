// The auth proxy of Harborgate under pm2; see docs/auth-proxy.md.
//
//   pm2 start ecosystem.config.cjs
//   pm2 sendSignal SIGHUP harbor-auth     reads configuration and keys again
//   pm2 reload harbor-auth                another process, when the open requests have ended
//
// pm2 writes the environment of its programs to its own files. So only these
// variables are handed on: keys belong into files (file:/path in config.yaml).
const handed = ["HOME", "PATH", "HARBOR_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];

module.exports = {
  apps: [
    {
      name: "harbor-auth",
      script: "/usr/local/bin/harbor",
      args: ["auth", "serve"],
      interpreter: "none",
      exec_mode: "fork",
      instances: 1, // one process has the budgets
      filter_env: [""], // a part of every name, so none passes; true would do nothing
      env: Object.fromEntries(handed.filter((name) => name in process.env).map((name) => [name, process.env[name]])),
      merge_logs: true, // no number in their names
      kill_timeout: 30000, // open requests get 25 seconds to end
      exp_backoff_restart_delay: 200,
      time: false, // log lines hold it
    },
  ],
};
