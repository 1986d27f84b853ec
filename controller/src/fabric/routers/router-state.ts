import type { VersionInfo } from "@sallyport/wire";
import type { RouterConnection, SyncStatus } from "./router-connection.ts";

/** Run-time state of a connected router, as the Management API shows it. */
export interface RouterState {
  readonly id: string;
  readonly isOnline: true;
  readonly connectedSince: Date;
  readonly syncStatus: SyncStatus;
  readonly hostname: string;
  /** Protocol to URL, as SDKs connect. */
  readonly supportedProtocols: Readonly<Record<string, string>>;
  readonly versionInfo: VersionInfo;
  /** Where other routers dial it. */
  readonly linkListeners: readonly { readonly address: string; readonly protocol: string }[];
  /** `ip:port` the router connected from. */
  readonly address: string;
  /** Round-trip time of the last heartbeat. */
  readonly latencyMs?: number;
}

export function routerState(router: RouterConnection): RouterState {
  const { version, revision, buildDate, os, arch } = router.version;
  const { latencyMs } = router.channel;
  return {
    id: router.id,
    isOnline: true,
    connectedSince: router.connectedAt,
    syncStatus: router.syncStatus,
    hostname: router.hostname,
    supportedProtocols: router.supportedProtocols,
    versionInfo: { version, revision, buildDate, os, arch },
    linkListeners: router.listeners.map(({ address, protocol }) => ({ address, protocol })),
    address: router.channel.peer.address,
    ...(latencyMs === undefined ? {} : { latencyMs }),
  };
}
