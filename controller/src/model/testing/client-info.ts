import type { TunnelClientInfo } from "../../fabric/ports.ts";

const INFO = {
  arch: "",
  os: "linux",
  osRelease: "",
  osVersion: "",
  hostname: "",
  domain: "",
  appId: "",
  appVersion: "",
  branch: "",
  revision: "",
  type: "router",
  version: "",
};

/** A router that tunnels, as it asks for its session. */
export const TUNNELER: TunnelClientInfo = {
  envInfo: INFO,
  sdkInfo: INFO,
  configTypes: ["all"],
  remoteAddress: "10.0.0.1:5",
};
