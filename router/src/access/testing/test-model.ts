import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Listeners } from "@sallyport/async";
import { edgeCtrlPb, encodeControl } from "@sallyport/wire";
import { type JWTPayload, SignJWT } from "jose";
import { ChangeSetReader } from "../../control/data-model/event-reader.ts";
import { applyChanges, NetworkModel, type Touched } from "../../control/data-model/network-model.ts";
import type { ModelSource } from "../access.ts";

export type EventModel = MessageInitShape<typeof edgeCtrlPb.DataState_EventSchema>["model"];

const { DataState_Action: Action, DataState_RelatedEntityType: Related } = edgeCtrlPb;

/** A data model that a test changes. */
export class TestModel implements ModelSource {
  model = new NetworkModel();
  hasModel = true;
  readonly #listeners = new Listeners<[model: NetworkModel, touched: Touched]>();

  publicKey(kid: string): edgeCtrlPb.DataState_PublicKey | undefined {
    return this.model.publicKeys.get(kid);
  }

  onChange(listener: (model: NetworkModel, touched: Touched) => void): () => void {
    return this.#listeners.add(listener);
  }

  async put(...models: EventModel[]): Promise<void> {
    await this.#take(models, Action.Create);
  }

  async remove(...models: EventModel[]): Promise<void> {
    await this.#take(models, Action.Delete);
  }

  /** Puts another model in force, with an index of its own. */
  async replaceBy(...models: EventModel[]): Promise<void> {
    const other = new TestModel();
    await other.put(...models);
    this.model = other.model;
    this.#listeners.emit(this.model, { identities: "all", sessions: new Set(), haveKeysChanged: true });
  }

  async #take(models: readonly EventModel[], action: edgeCtrlPb.DataState_Action): Promise<void> {
    const set = create(edgeCtrlPb.DataState_ChangeSetSchema, {
      index: this.model.index + 1n,
      changes: models.map((model) => create(edgeCtrlPb.DataState_EventSchema, { action, model: model as never })),
    });
    await applyChanges(this.model, new ChangeSetReader(encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, set)));
    this.#listeners.emit(this.model, this.model.takeTouched());
  }
}

export const identity = (id: string, disabled = false): EventModel =>
  ({ case: "identity", value: { id, name: `name of ${id}`, disabled } }) as never;
export const service = (id: string, configs: string[] = []): EventModel =>
  ({ case: "service", value: { id, name: `name of ${id}`, configs, encryptionRequired: true } }) as never;
export const policy = (id: string, type: "Dial" | "Bind"): EventModel =>
  ({ case: "servicePolicy", value: { id, name: id, policyType: type === "Dial" ? 1 : 2 } }) as never;
export const member = (
  policyId: string,
  kind: "identity" | "service" | "check",
  relatedEntityIds: string[],
  add = true,
): EventModel => {
  const relatedEntityType = {
    identity: Related.RelatedIdentity,
    service: Related.RelatedService,
    check: Related.RelatedPostureCheck,
  }[kind];
  return { case: "servicePolicyChange", value: { policyId, relatedEntityIds, relatedEntityType, add } } as never;
};
export const check = (id: string, subtype: object): EventModel =>
  ({ case: "postureCheck", value: { id, name: id, subtype } }) as never;
export const revocation = (id: string, type: string, expiresAt: number, issuedBefore?: number): EventModel => {
  const at = (ms: number) => ({ seconds: BigInt(Math.floor(ms / 1000)), nanos: 0 });
  const before = issuedBefore === undefined ? {} : { issuedBefore: at(issuedBefore) };
  return { case: "revocation", value: { id, type, expiresAt: at(expiresAt), ...before } } as never;
};

const CURVES = { ES256: "P-256", ES384: "P-384", ES512: "P-521" } as const;

/** A key that signs tokens, and its event of the data model. */
export class TestKey {
  readonly kid: string;
  readonly algorithm: string;
  readonly #privateKey: KeyObject;
  readonly publicKey: KeyObject;

  constructor(kid: string, algorithm: "RS256" | "RS384" | "RS512" | keyof typeof CURVES = "ES256") {
    this.kid = kid;
    this.algorithm = algorithm;
    const pair =
      algorithm in CURVES
        ? generateKeyPairSync("ec", { namedCurve: CURVES[algorithm as keyof typeof CURVES] })
        : generateKeyPairSync("rsa", { modulusLength: 2048 });
    this.#privateKey = pair.privateKey;
    this.publicKey = pair.publicKey;
  }

  get event(): EventModel {
    const data = this.publicKey.export({ format: "der", type: "spki" });
    return { case: "publicKey", value: { kid: this.kid, data, usages: [0], format: 1 } } as never;
  }

  sign(claims: JWTPayload, header: object = {}): Promise<string> {
    const protectedHeader = { alg: this.algorithm, kid: this.kid, typ: "JWT", ...header };
    return new SignJWT(claims).setProtectedHeader(protectedHeader).sign(this.#privateKey);
  }
}
