import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { archiveOf, canRun } from "./archive-of.ts";
import { signalTo, UnpackedImage } from "./unpacked-image.ts";

describe.skipIf(!canRun)("the operator's image", () => {
  let image: UnpackedImage;
  beforeAll(() => {
    image = UnpackedImage.unpack(archiveOf("operator"));
  });
  afterAll(() => image.remove());

  it("says which file that is to lead to a cluster cannot be read", () => {
    const { status, errors } = image.run({ args: ["run", "--kubeconfig", "/etc/sallyport/kubeconfig"] });
    expect(status).toBeGreaterThan(0);
    expect(errors).toContain("/etc/sallyport/kubeconfig");
  });

  it("lives while its cluster gives no answer, and ends with 0 at SIGTERM", async () => {
    const asked: string[] = [];
    const silent = createServer((request, response) => {
      asked.push(request.url ?? "");
      response.writeHead(503, { "retry-after": "1" }).end();
    }).listen(0, "127.0.0.1");
    const port = await freePort();
    try {
      const { port: serverPort } = silent.address() as AddressInfo;
      const server = `http://127.0.0.1:${serverPort}`;
      const operator = image.start({ args: ["run", "--server", server, "--health-port", String(port)] });
      await operator.ready("an answer about its health", async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
        return answer?.status === 200 && asked.length > 0;
      });
      signalTo(operator, "SIGTERM");
      expect(await operator.exited, operator.tail.join("\n")).toBe(0);
    } finally {
      silent.closeAllConnections();
      silent.close();
    }
  });
});
