import { addressFromUrl, formatAddress } from "@sallyport/wire";

/** A router that may be used: its name and where it is dialled. */
export interface RouterAddress {
  readonly name: string;
  /** `tls:host:port` */
  readonly address: string;
}

/** Where the controller does not say more. */
export const NO_ROUTERS =
  "the controller lists no online edge router for this service and identity; check edge router policies and routers";

/**
 * The usable addresses of the routers that the controller lists. Others than `tls` are left out: no application
 * protocol of this SDK runs on them.
 */
export function routerAddresses(
  routers: readonly { readonly name: string; readonly supportedProtocols?: Readonly<Record<string, string>> }[],
): RouterAddress[] {
  return routers.flatMap((router) =>
    Object.values(router.supportedProtocols ?? {})
      .filter((url) => url.startsWith("tls:"))
      .map((url) => ({ name: router.name, address: formatAddress(addressFromUrl(url)) })),
  );
}
