import type { RouterConfig } from "@sallyport/router-config";

/** The configuration for inspection: without private keys, passwords and inline PEM. */
export function redacted(config: RouterConfig): unknown {
  return JSON.parse(
    JSON.stringify(config, (key, value: unknown) => {
      if (typeof value !== "string") return value;
      const isSecret = key === "password" || value.includes("-----BEGIN") || value.startsWith("pem:");
      return isSecret ? "(not shown)" : value;
    }),
  );
}
