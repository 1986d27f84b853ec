/** Addresses of controllers as users write them. */
import { UsageError } from "../errors.ts";

/** Where a controller listens unless configured otherwise. */
const STANDARD_PORT = 1280;

/**
 * `https://host:port` of what a user wrote: a URL, `host:port`, or a host alone, which means port 1280.
 *
 * @throws UsageError for everything else
 */
export function controllerUrl(text: string): string {
  const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  const url = URL.parse(hasScheme ? text : `https://${text}`);
  if (url === null || url.hostname === "" || url.protocol !== "https:" || url.username !== "")
    throw new UsageError(`'${text}' is no address of a controller: expected https://HOST:PORT`);
  if (!hasScheme && url.port === "" && !/:443(\/|$)/.test(text)) url.port = String(STANDARD_PORT);
  return url.origin;
}

/** What to call a network: the host name, and the port where it is an unusual one. */
export function networkNameOf(controller: string): string {
  const { hostname, port } = new URL(controller);
  const host = hostname.replaceAll(/[^A-Za-z0-9.-]/g, "-").replaceAll(/^[^A-Za-z0-9]+|-+$/g, "") || "network";
  const suffix = port === "" || port === String(STANDARD_PORT) ? "" : `-${port}`;
  return `${host.slice(0, 63 - suffix.length)}${suffix}`;
}
