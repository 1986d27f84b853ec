import { RouteErrorCode, silentLogger } from "@sallyport/wire";
import { expect, it } from "vitest";
import type { Access } from "../../access/ports.ts";
import type { ControlPlane } from "../../control/control-plane.ts";
import type { EgressRequest } from "../../forwarder/egress.ts";
import type { Forwarder } from "../../forwarder/forwarder.ts";
import { ServicePermissions } from "../tokens/service-permissions.ts";
import { EdgeEgress } from "./edge-egress.ts";
import { Hosting } from "./hosting.ts";

// Nothing is hosted: the dial ends before it needs a controller or a circuit.
const hosting = new Hosting({} as ControlPlane, new ServicePermissions({} as Access), silentLogger);
const egress = new EdgeEgress(hosting, {} as Forwarder);
const dial = (destination: string) => egress.dial({ destination } as EgressRequest);

it("names the terminator that is not here, but no session token", async () => {
  await expect(dial("4QyVhY0GyNqFpsx2ZcAKYe")).rejects.toMatchObject({
    code: RouteErrorCode.InvalidTerminator,
    message: "no application listens here with terminator 4QyVhY0GyNqFpsx2ZcAKYe",
  });
  await expect(dial("hosted:0d9c3a1e-secret")).rejects.toMatchObject({
    code: RouteErrorCode.InvalidTerminator,
    message: "no application listens here",
  });
});
