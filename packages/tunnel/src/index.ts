/**
 * A way onto the overlay for applications that know nothing of it: connections to intercepted addresses or ports become
 * circuits, and circuits to hosted services become connections to applications.
 */

export type { PrecedenceName } from "@sallyport/wire";
export type { LocalRoutes } from "./host/source-addresses.ts";
export { probeDiverter } from "./intercept/diverter.ts";
export { SourceRoutes } from "./intercept/local-ranges.ts";
export { hasInterface, TproxyInterceptor, type TproxyOptions } from "./intercept/tproxy-interceptor.ts";
export {
  type ClientAddresses,
  InterceptError,
  type InterceptedClients,
  type Interception,
  type Interceptor,
  type InterceptTarget,
  type PortRange,
  type Protocol,
  type TcpClient,
  type UdpFlow,
} from "./interceptor.ts";
export type {
  ConnectionKind,
  HostedTerminator,
  Overlay,
  OverlayConnection,
  OverlayDial,
  OverlayHandler,
  OverlayHosting,
  OverlayIdentity,
  OverlayIncomingDial,
  OverlayService,
} from "./overlay.ts";
export {
  ProxyInterceptor,
  type ProxyOptions,
  type ProxyService,
  parseProxyService,
} from "./proxy/proxy-interceptor.ts";
export { TcpRelay } from "./relay/tcp-relay.ts";
export { Tunneler, type TunnelerOptions } from "./tunneler.ts";
