import type { ManagementClient } from "@sallyport/api/client";
import {
  ANNOTATIONS,
  type DisablingPlan,
  type FoundIdentity,
  hasDisablingMark,
  type IdentityResource,
  type Invitation,
  identityEntity,
  identityKind,
  type MissingReference,
  networkRefOf,
  ownerOf,
  planDisabling,
  planServiceConfigs,
  type Surroundings,
  serviceConfigReferences,
} from "@sallyport/resources";
import { EntitySync, identityCollection } from "@sallyport/resources/sync";
import type { UsableNetwork } from "../../controller-client/network-clients.ts";
import { knownReferences } from "../../entity/known-references.ts";
import { conditionsOfSync } from "../../entity/reconcile.ts";
import { conditionOf } from "../../kube/conditions.ts";
import type { EventNote } from "../../kube/events/recorder.ts";
import { KINDS, type SecretObject } from "../../kube/kinds.ts";
import type { KindReconciler, Outcome } from "../../loop/kind-reconciler.ts";
import { syncedReason } from "../../loop/status.ts";
import { networkSecretProblem } from "../network/interface.ts";
import {
  type CredentialState,
  REVOKED,
  renewalTime,
  type WantedCredential,
  wantedCredential,
} from "./plan/credential.ts";
import {
  Credentials,
  type CredentialsResult,
  type PasswordResult,
  settlePassword,
  unlessGone,
} from "./reconcile/credentials.ts";
import { type Context, entityOf, identityReader, knownOf, removeIdentity, secretOf } from "./reconcile/entity.ts";
import { identityConditions, identityStatus, RENEWAL_FAILING, shownAuthenticators } from "./reconcile/status.ts";
import type { CredentialError } from "./secret/certificate.ts";
import type { IdentitySecret } from "./secret/identity-secret.ts";

interface IdentityReconcilerOptions {
  /**
   * How long a new certificate stands beside the one in force before it takes its place, milliseconds; default 2 minutes. Longer than the
   * kubelet takes to bring a changed Secret into a pod's volume.
   */
  readonly settleMs?: number;
}

const SETTLE_MS = 120_000;

/** Identities: the entity, its credentials in a Secret, and their renewal (docs/operator/identities.md). */
export function identityReconciler({
  settleMs = SETTLE_MS,
}: IdentityReconcilerOptions = {}): KindReconciler<IdentityResource> {
  return {
    kind: identityKind,
    owns: [KINDS.Secret],
    // Most of the time of one that enrolls is spent in waiting for the network.
    concurrency: 16,
    references: ({ spec }) => [...identityEntity.references(spec), ...serviceConfigReferences(spec)],
    reconcile: (resource, context) => new IdentityReconcile(resource, context, settleMs).run(),
    remove: removeIdentity,
  };
}

/** Whatever the identity needs besides itself is of one reconcile. */
class IdentityReconcile {
  readonly #context: Context;
  readonly #network: UsableNetwork;
  readonly #wanted: WantedCredential;
  readonly #settleMs: number;
  readonly #events: EventNote[] = [];
  readonly #missing: MissingReference[] = [];
  readonly #resource: IdentityResource;
  #identified: string | undefined;

  constructor(resource: IdentityResource, context: Context, settleMs: number) {
    this.#resource = resource;
    this.#context = context;
    this.#settleMs = settleMs;
    this.#network = context.networks.forNetwork(networkRefOf(resource));
    this.#wanted = wantedCredential(resource);
  }

  async run(): Promise<Outcome<IdentityResource>> {
    try {
      return await this.#run();
    } catch (error) {
      // The tag would find it again; the id is what others refer to.
      if (this.#identified !== undefined) await this.#context.keep({ id: this.#identified });
      throw error;
    }
  }

  async #run(): Promise<Outcome<IdentityResource>> {
    const { spec, status } = this.#resource;
    if (spec.isAdmin && spec.managementPolicy !== "Observe" && !this.#network.settings.allowAdminIdentities) {
      return this.#refused();
    }
    const surroundings = this.#surroundings();
    await this.#letIn();
    const result = await this.#sync(surroundings);
    this.#events.push(...result.notes.map((note) => ({ ...note, action: "Sync" })));
    const sync = conditionsOfSync(result);
    if (!("id" in result)) return { conditions: sync, status: {}, events: this.#events };
    let identity = result.found ?? (await this.#detail(result.id));
    const isManaged = spec.managementPolicy !== "Observe";
    const disabling = isManaged ? await this.#disable(identity) : ({ action: "none" } as const);
    if (disabling.action === "disable") identity = await this.#detail(result.id);
    if (isManaged) {
      await this.#retire(identity);
      await this.#assignConfigs(identity, surroundings, result.found === undefined);
    }
    const password = isManaged ? await this.#setPassword(identity) : undefined;
    if (password?.isChanged === true) identity = await this.#detail(result.id);
    const secret = await this.#secret();
    const settled = await this.#settle(identity, secret);
    identity = settled?.identity ?? identity;
    this.#recordFailure(settled?.error, secret);
    const state = settled === undefined ? this.#withoutSecret(identity) : settled.state;
    const now = this.#context.now();
    const conditions = identityConditions({
      sync,
      state,
      error: settled?.error,
      secret: secret?.held,
      isDisabledBySpec: isManaged && spec.disabled,
      disabling,
      missing: this.#missing,
      passwordProblem: password?.problem,
      now,
    });
    const { signal } = this.#context;
    const authenticators = await shownAuthenticators(this.#client, identity, secret?.held, status, now, signal);
    const { metadata } = this.#resource;
    this.#measure(secret);
    const asked = metadata.annotations?.[ANNOTATIONS.reEnroll];
    return {
      conditions,
      status: identityStatus({
        identity,
        wanted: this.#wanted,
        secretName: secret?.name,
        secret: secret?.held,
        isEnrolled: conditions.some(({ type, status }) => type === "Enrolled" && status === "True"),
        // What it had is what says that it is not to be invited by itself.
        authenticators: state?.problem?.reason === REVOKED ? (status.authenticators ?? []) : authenticators,
        previous: status,
        renewedAt: settled?.hasRenewed === true ? now : undefined,
        lastHandledReEnroll: settled?.hasReEnrolled === true ? asked : status.lastHandledReEnroll,
      }),
      events: this.#events,
      requeueAfterMs: state?.wakeAt && Math.max(state.wakeAt.getTime() - now.getTime(), 0) + 1,
      isFailure: settled?.error !== undefined,
    };
  }

  get #client(): ManagementClient {
    return this.#network.client;
  }

  #refused(): Outcome<IdentityResource> {
    const message = `spec.isAdmin is refused: the Network ${this.#resource.spec.networkRef.name} does not allow identities that administer it; set its spec.allowAdminIdentities, or leave isAdmin out`;
    const outcome = { status: "False", reason: "AdminNotAllowed", message } as const;
    const { observedGeneration: _, conditions: before, lastHandledReconcileAt: __, ...own } = this.#resource.status;
    const conditions = [
      { type: "Synced", ...outcome, reason: syncedReason(before, outcome.reason) },
      { type: "Ready", ...outcome },
      { type: "Stalled", ...outcome, status: "True" as const },
    ];
    return { conditions, status: own };
  }

  #surroundings(): Surroundings {
    const { cluster, known } = this.#context;
    const { metadata, spec } = this.#resource;
    const all = [...identityEntity.references(spec), ...serviceConfigReferences(spec)];
    const references = knownReferences(this.#resource, all, known);
    const { roleScope, isTenant } = this.#network.settings;
    const scope = { roleScope, isTenant, namespace: metadata.namespace };
    return { owner: ownerOf(entityOf(this.#resource), cluster), scope, references };
  }

  async #sync(surroundings: Surroundings) {
    const sync = new EntitySync(identityEntity, identityCollection(this.#invitationOfCreate()), identityReader);
    const { signal } = this.#context;
    const onIdentified = async (id: string): Promise<void> => {
      this.#identified = id;
    };
    const o = { signal, onIdentified };
    return await sync.sync(this.#client, entityOf(this.#resource), knownOf(this.#resource), surroundings, o);
  }

  /** A new identity is invited with its creation, unless the token shall live for another time than the network's. */
  #invitationOfCreate(): Invitation | undefined {
    const wanted = this.#wanted;
    if (wanted.kind === "identity") return { method: "ott" };
    if (wanted.kind === "none" || this.#resource.spec.enrollment?.tokenLifetime !== undefined) return undefined;
    return wanted.invitation;
  }

  async #detail(id: string): Promise<FoundIdentity> {
    const { signal } = this.#context;
    const found = await identityReader.byId(this.#client, id, signal);
    // Of what is gone the answer of the network says more.
    return found ?? (await this.#client.detailIdentity({ params: { id } }, { signal })).data;
  }

  /** Takes away a lock of the resource, as long as the identity is marked with it: the mark goes with the next change. */
  async #letIn(): Promise<void> {
    const { spec, status, metadata } = this.#resource;
    const isAtRest =
      status.observedGeneration === metadata.generation && conditionOf(status.conditions, "Ready")?.status === "True";
    if (spec.disabled || spec.managementPolicy === "Observe" || status.id === undefined || isAtRest) return;
    const { signal } = this.#context;
    const identity = await this.#detail(status.id).catch(unlessGone);
    if (identity === undefined || planDisabling(false, identity, hasDisablingMark(identity)).action !== "enable")
      return;
    await this.#client.enableIdentity({ params: { id: identity.id } }, { signal });
    this.#record("Enabled", "Enable", "the identity is let in again");
  }

  async #disable(identity: FoundIdentity): Promise<DisablingPlan> {
    const plan = planDisabling(this.#resource.spec.disabled, identity, false);
    if (plan.action === "disable") {
      const { signal } = this.#context;
      await this.#client.disableIdentity({ params: { id: identity.id }, body: { durationMinutes: 0 } }, { signal });
      this.#record("Disabled", "Disable", "the identity is locked out, and its sessions have ended");
    }
    return plan;
  }

  /** Takes back a token that the spec does not want any more. */
  async #retire({ enrollment }: FoundIdentity): Promise<void> {
    const { status } = this.#resource;
    const wanted = this.#wanted;
    const { signal } = this.#context;
    const method = wanted.kind === "none" ? undefined : wanted.kind === "token" ? wanted.invitation.method : "ott";
    for (const each of ["ott", "ottca", "updb"] as const) {
      const id = enrollment[each]?.id;
      if (each === method || id === undefined || id !== status.enrollment?.id) continue;
      await this.#client.deleteEnrollment({ params: { id } }, { signal }).catch(unlessGone);
    }
    const before = status.secretName;
    if (before === undefined || (wanted.kind !== "none" && wanted.secretName === before)) return;
    const secret = await this.#secretCalled(before);
    // A program logs in with an identity in a Secret: it stays as long as the resource does.
    if (secret.held.state !== "ours" || secret.held.token === undefined || secret.held.identity !== undefined) return;
    await secret.delete();
    this.#record(
      "TokenWithdrawn",
      "Invite",
      `the Secret ${before} with a token that is not wanted any more was deleted`,
    );
  }

  async #assignConfigs({ id }: FoundIdentity, { references }: Surroundings, wasMade: boolean): Promise<void> {
    const { spec, status, metadata } = this.#resource;
    // Asked for only as long as there may be some: only the operator gives its identities configs of their own.
    const hasNone = wasMade || status.observedGeneration === metadata.generation;
    if ((spec.serviceConfigs ?? []).length === 0 && hasNone) return;
    const { signal } = this.#context;
    const params = { id };
    const found = (await this.#client.listIdentitysServiceConfigs({ params }, { signal })).data;
    const { assign, remove, missing } = planServiceConfigs(spec, references, found);
    this.#missing.push(...missing);
    if (assign.length > 0) {
      await this.#client.associateIdentitysServiceConfigs({ params, body: [...assign] }, { signal });
    }
    if (remove.length > 0) {
      const body = remove.map(({ serviceId, configId }) => ({ serviceId, configId }));
      await this.#client.disassociateIdentitysServiceConfigs({ params, body }, { signal });
    }
  }

  async #setPassword({ id }: FoundIdentity): Promise<PasswordResult | undefined> {
    const { passwordSecretRef: secretRef, username } = this.#resource.spec.enrollment ?? {};
    if (secretRef === undefined || username === undefined) return undefined;
    const secret = await this.#context.read<SecretObject>(KINDS.Secret, secretRef.name);
    const { signal } = this.#context;
    const message = networkSecretProblem(this.#resource.metadata.namespace, secretRef.name, this.#context);
    if (message !== undefined) {
      return { problem: { reason: "SecretNotAllowed", message, isPassing: false }, isChanged: false };
    }
    const o = { client: this.#client, identityId: id, username, secretRef, secret, signal };
    const result = await settlePassword(o);
    if (result.isChanged)
      this.#record("PasswordSet", "SetPassword", `the password of the Secret ${secretRef.name} is in force`);
    return result;
  }

  async #secret(): Promise<IdentitySecret | undefined> {
    const wanted = this.#wanted;
    return wanted.kind === "none" ? undefined : await this.#secretCalled(wanted.secretName);
  }

  async #secretCalled(name: string): Promise<IdentitySecret> {
    const secret = await secretOf(this.#resource, this.#context, name);
    // Children are watched anyway; a Secret that is no child, or shall not be one, is watched by its name.
    const isChild = secret.held.state !== "foreign" && this.#resource.spec.deletionPolicy === "Delete";
    if (!isChild) await this.#context.read(KINDS.Secret, name);
    return secret;
  }

  async #settle(identity: FoundIdentity, secret: IdentitySecret | undefined): Promise<CredentialsResult | undefined> {
    const wanted = this.#wanted;
    if (secret === undefined || wanted.kind === "none") return undefined;
    const { metadata, status } = this.#resource;
    const asked = metadata.annotations?.[ANNOTATIONS.reEnroll];
    const reEnroll = asked === status.lastHandledReEnroll ? undefined : asked;
    const { signal, mayAct } = this.#context;
    const now = (): Date => this.#context.now();
    const recordEvent = (event: EventNote): void => this.#context.recordEvent(event);
    const method = wanted.kind === "token" && wanted.invitation.method === "updb" ? "updb" : "cert";
    const wasEnrolled =
      status.id === identity.id && status.authenticators?.some((each) => each.method === method) === true;
    const settleMs = this.#settleMs;
    const o = {
      client: this.#client,
      secret,
      wanted,
      wasEnrolled,
      reEnroll,
      settleMs,
      signal,
      mayAct,
      now,
      recordEvent,
    };
    return await new Credentials(identity, o).settle();
  }

  #withoutSecret({ authenticators, externalId }: FoundIdentity): CredentialState {
    const hasCredentials = authenticators.cert !== undefined || authenticators.updb !== undefined;
    if (hasCredentials)
      return { enrolled: { status: "True", reason: "Enrolled", message: "the identity has credentials" } };
    if (externalId) {
      const message = "the identity logs in by tokens of an outside issuer";
      return { enrolled: { status: "True", reason: "ExternalId", message } };
    }
    const message = "the identity has no credentials, and the spec asks for none";
    return { enrolled: { status: "False", reason: "NotEnrolled", message } };
  }

  /** The resource stays ready when renewals begin to fail: without the event no user would know. */
  #recordFailure(error: CredentialError | undefined, secret: IdentitySecret | undefined): void {
    const held = secret?.held;
    const before = conditionOf(this.#resource.status.conditions, "CertificateValid");
    if (error === undefined || held?.state !== "ours" || held.identity === undefined) return;
    if (before === undefined || before.reason === RENEWAL_FAILING) return;
    const note = `${error.message}; it is tried again, and the certificate is good until ${held.identity.notAfter.toISOString()}`;
    this.#context.recordEvent({ type: "Warning", reason: RENEWAL_FAILING, action: "Renew", note });
  }

  #measure(secret: IdentitySecret | undefined): void {
    const held = secret?.held;
    const wanted = this.#wanted;
    if (held?.state !== "ours" || held.identity === undefined || wanted.kind !== "identity") return;
    const renews = renewalTime(held.identity, wanted.renewBeforeMs);
    const { kind, metadata } = this.#resource;
    this.#context.metrics.certificate({ kind, ...metadata }, { expires: held.identity.notAfter, renews });
  }

  #record(reason: string, action: string, note: string): void {
    this.#context.recordEvent({ type: "Normal", reason, action, note });
  }
}
