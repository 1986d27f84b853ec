import { readControllerConfig } from "@sallyport/controller-config";
import { expect, it } from "vitest";
import { authSettings, scrapeCertificate, storeLocation } from "./settings.ts";

const { config, placeOf } = readControllerConfig(
  `api: { bind: ":1", advertise: "c:1" }
ctrl: { bind: ":1", advertise: "c:1" }
database:
  urlFile: no/url
auth:
  jwks: { caFile: no/ca.pem }
metrics:
  scrapeCertificate: no/prometheus.pem
`,
  "/no/controller.yml",
);
const file = "/no/controller.yml";

it.each<[string, () => unknown, RegExp]>([
  [
    "the database's URL",
    () => storeLocation(config, file, placeOf),
    /^\/no\/controller\.yml:4:12: database\.urlFile: .*ENOENT/,
  ],
  ["certificates of key sets", () => authSettings(config, file, placeOf), /:6:19: auth\.jwks\.caFile: .*ENOENT/],
  [
    "the certificate of Prometheus",
    () => scrapeCertificate(config, file, placeOf),
    /:8:22: metrics\.scrapeCertificate: .*ENOENT/,
  ],
])("a file with %s that cannot be read is named with its key and its place", async (_what, read, message) => {
  await expect((async () => read())()).rejects.toThrow(message);
});
