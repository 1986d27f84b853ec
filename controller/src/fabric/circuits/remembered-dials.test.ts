import { EdgeCtrlType, PeerData } from "@sallyport/wire";
import { beforeEach, expect, it } from "vitest";
import { bytes, dial, dialHeaders, established, meshPerTest } from "../testing/circuit-mesh.ts";
import type { TestFabric } from "../testing/test-fabric.ts";
import { rememberedDials } from "./remembered-dials.ts";

const remembered: unknown[] = [];
beforeEach(() => {
  remembered.length = 0;
});

const startMesh = meshPerTest((net: TestFabric) => {
  net.fabric.onEvent(
    rememberedDials({
      add: (identityId, failure) => void remembered.push({ identityId, ...failure }),
      succeeded: (identityId, serviceId) => void remembered.push({ identityId, serviceId }),
    }),
  );
});

it("a circuit that comes about is a success of its identity and service", async () => {
  const { a, b } = await startMesh();
  await established(a, b);
  expect(remembered).toEqual([{ identityId: "client", serviceId: "svc" }]);
});

it("a circuit that does not come about is remembered with its cause and first router", async () => {
  const { net, a } = await startMesh();
  net.model.terminators.clear();
  expect((await dial(a)).contentType).toBe(EdgeCtrlType.Error);
  expect(remembered).toEqual([
    {
      ...{ identityId: "client", serviceId: "svc", type: "Dial", routerId: "a" },
      ...{ code: "NO_TERMINATORS", message: "service svc-name has no terminators" },
    },
  ]);
});

it("missing encryption at either end is remembered", async () => {
  const { net, a, b } = await startMesh({}, { peerData: new Map() });
  net.model.addService("svc", { encryptionRequired: true });
  expect((await dial(a)).contentType).toBe(EdgeCtrlType.Error);
  const answer = dial(a, dialHeaders("dial", new Map([[PeerData.PublicKey, bytes("key")]])));
  for (const router of [a, b]) router.acceptRoute((await router.nextRoute()).message);
  expect((await answer).contentType).toBe(EdgeCtrlType.Error);
  const failure = (message: string) => ({
    ...{ identityId: "client", serviceId: "svc", type: "Dial", routerId: "a" },
    ...{
      code: "ENCRYPTION_DATA_MISSING",
      message: `encryption required on service, ${message} did not send public key`,
    },
  });
  expect(remembered.filter((each) => "code" in (each as object))).toEqual([
    failure("initiator"),
    failure("terminator"),
  ]);
});
