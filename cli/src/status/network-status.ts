/** The state of a network: what `sallyport status` prints, and its `-o json` as it is. */

export interface NetworkStatus {
  readonly network: string;
  readonly controllers: readonly ControllerStatus[];
  readonly routers: readonly RouterStatus[];
  readonly links: readonly LinkStatus[];
  readonly counts: Counts;
  readonly certificates: readonly CertificateStatus[];
  readonly unhostedServices: readonly UnhostedService[];
  readonly disabledIdentities: readonly DisabledIdentity[];
  readonly failedDials: readonly FailedDial[];
  /** What fails first, then warnings. */
  readonly problems: readonly Problem[];
  /** Parts that the controller does not tell, with the reason. */
  readonly unread: readonly Unread[];
}

export interface ControllerStatus {
  readonly name: string;
  readonly url?: string;
  readonly version?: string;
  readonly isOnline: boolean;
  readonly startedAt?: string;
  readonly isHealthy?: boolean;
  /** Of its health checks, those that fail. */
  readonly failing?: readonly string[];
}

export interface RouterStatus extends Named {
  readonly isOnline: boolean;
  readonly isEnrolled: boolean;
  readonly disabled: boolean;
  readonly version?: string;
  readonly links: number;
  readonly connectedAt?: string;
  readonly lastSeenAt?: string;
  /** Until when its enrollment can be used. */
  readonly enrollmentExpiresAt?: string;
}

export interface LinkStatus {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly protocol: string;
  readonly state: string;
  readonly down: boolean;
  /** There and back, the mean of what both ends measured; absent before they have. */
  readonly latencyMs?: number;
  readonly cost: number;
}

export interface Counts {
  readonly identities?: number;
  readonly services?: number;
  readonly circuits?: number;
  readonly apiSessions?: number;
  readonly sessions?: number;
  /** Of these the lists may have less. */
  readonly unhostedServices?: number;
  readonly disabledIdentities?: number;
}

export interface CertificateStatus extends Named {
  readonly kind: "controller" | "authority" | "ca" | "router";
  readonly notAfter: string;
  readonly state: "ok" | "ends soon" | "ended";
}

export interface Named {
  readonly id: string;
  readonly name: string;
}

export interface UnhostedService extends Named {
  /** An identity that may host it. */
  readonly host?: Named;
}

export interface DisabledIdentity extends Named {
  /** Absent: until an administrator enables it. */
  readonly until?: string;
}

export interface FailedDial {
  readonly identity: Named;
  readonly service: Named;
  readonly type: string;
  readonly code: string;
  readonly message: string;
  readonly count: number;
  readonly at: string;
}

export interface Problem {
  /** `failed`: what policy allows does not work. */
  readonly status: "failed" | "warning";
  readonly subject: string;
  readonly message: string;
  /** What explains or fixes it. */
  readonly command?: string;
}

export interface Unread {
  readonly part: string;
  readonly reason: string;
}

/** Everything but what follows from it. */
export type Observed = Omit<NetworkStatus, "problems">;
