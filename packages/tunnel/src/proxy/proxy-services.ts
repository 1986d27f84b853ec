import { InterceptError, type Protocol } from "../interceptor.ts";

/** A service that is reached by a port of this machine. */
export interface ProxyService {
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** Reads `<service>:<port>[:tcp|udp]`. @throws InterceptError `PROXY_SERVICE_INVALID` */
export function parseProxyService(text: string): ProxyService {
  const parts = text.split(":");
  const [name = "", port = "", protocol = "tcp"] = parts;
  if (parts.length < 2 || parts.length > 3 || name === "") {
    throw invalid(`invalid argument '${text}', expected <service>:<port>[:tcp|udp]`);
  }
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65_535) {
    throw invalid(`invalid port specified in '${text}', expected 1 to 65535`);
  }
  const chosen = protocol.toLowerCase();
  if (chosen !== "tcp" && chosen !== "udp") {
    throw invalid(`invalid protocol specified in '${text}', must be tcp or udp`);
  }
  return { name, port: Number(port), protocol: chosen };
}

function invalid(message: string): InterceptError {
  return new InterceptError("PROXY_SERVICE_INVALID", message);
}
