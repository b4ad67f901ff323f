/** The records of the audit: events, and the deliveries to webhooks that are stored with them. */
import type { EventKind, EventResult } from '../base/event-kinds.js'
import type { Path } from '../base/path.js'

/** The user, visitor or part of the gateway that did something. */
export interface Actor {
  /** Absent for guests who have no account of their own, and for the gateway itself. */
  readonly userId?: number | undefined
  /**
   * The name of the user when it happened, `guest`, `share:PSEUDONYM`, or `gateway:` for the gateway itself. No name of
   * a user has a colon.
   */
  readonly name: string
  /** The name of a protocol, `task`, or `command line`. Absent for the gateway itself. */
  readonly protocol?: string | undefined
  /** The address of the client, without port. Of a sum of refusals from several: their network. */
  readonly address?: string | undefined
  /** The id of the credential: `token:ID`, `console:12`, `key:3`, `app:4`, `password`, `permanent`. Never a secret. */
  readonly credential?: string | undefined
}

/** The name of the gateway as an actor. */
export const ownActor = 'gateway:'

/** The facts of an event that are known where it happens. */
export interface EventFacts {
  readonly kind: EventKind
  readonly actor: Actor
  readonly result: EventResult
  /** Paths of the whole tree. */
  readonly path?: Path | undefined
  readonly target?: Path | undefined
  /** The size of the file, in bytes. */
  readonly size?: number | undefined
  readonly entry?: 'file' | 'folder' | 'symlink' | undefined
  /** The mount path of the storage. */
  readonly storage?: Path | undefined
  /** The detail of the error by which something was refused or failed, or its code if it has no detail. */
  readonly error?: string | undefined
  /** The rule or grant that decided on a refusal, in the words of `explain`. */
  readonly decidedBy?: string | undefined
  /**
   * What was changed, by its name or id, in `admin.*` and `task.ended`, and by the pseudonym of the share in
   * `share.*`; `old → new` after a rename. In `signin.*`, what has proved the user in place of a credential of this
   * server: `oidc`, `oauth`, `ldap` or `passkey`.
   */
  readonly subject?: string | undefined
  /** The names of the fields that were sent in `admin.*` and `share.*`. Never their values. */
  readonly fields?: readonly string[] | undefined
  /** The duration of the operation, in whole milliseconds. */
  readonly duration?: number | undefined
  /** Refusals of one kind, or visits of one share, from one network that are counted in one row: more than one. */
  readonly count?: number | undefined
}

/** An event as it is stored. Numbers are integers; texts have no NUL and are well-formed. */
export interface AuditEvent extends EventFacts {
  /** A UUID of version 7 (RFC 9562 §5.7). */
  readonly id: string
  /** Milliseconds since 1970. */
  readonly time: number
  /** The name of the node. */
  readonly node: string
}

/** A stored event with the number of its row: rows are numbered in the order in which they become visible. */
export interface NumberedEvent extends AuditEvent {
  readonly number: number
}

/** Selects events: those that match every field that is given. */
export interface AuditFilter {
  /** Milliseconds since 1970: not before, and before. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  /** The name of the actor. */
  readonly user?: string | undefined
  /** Events whose path or target is this or below it. */
  readonly path?: Path | undefined
  /** Events whose path or target is this. */
  readonly at?: Path | undefined
  readonly kinds?: readonly EventKind[] | undefined
  readonly result?: EventResult | undefined
  /** An address; if it ends with `*`, all that begin with what is before it. */
  readonly address?: string | undefined
}

/** The event after which a page of events goes on. A page begins with the newest. */
export type AuditCursor = Pick<AuditEvent, 'time' | 'id'>

export interface AuditPage {
  readonly events: readonly NumberedEvent[]
  /**
   * Where to go on. Undefined after the last event that matches. Otherwise the page may have fewer events than its
   * limit, or none: one call looks at a limited number of events.
   */
  readonly next: AuditCursor | undefined
}

/** Events in the order of their numbers, and the number of the last event that was looked at for them. */
export interface FollowedEvents {
  readonly events: readonly NumberedEvent[]
  readonly last: number
}

/** An event that has to be delivered to a webhook. */
export interface NewDelivery {
  readonly hookId: number
  readonly eventId: string
  readonly body: string
  /** When it may be sent: milliseconds since 1970. 0: at once. */
  readonly nextAt: number
}

export interface WebhookRow {
  readonly id: number
  /** Unique. */
  readonly name: string
  readonly url: string
  /** The secret that signs each message, as receivers have it: `whsec_…`. */
  readonly secret: string
  /** The secret before the last rotation, and until when it signs too. */
  readonly oldSecret: string | undefined
  readonly oldSecretEnds: Date | undefined
  /** Names of events, or beginnings of them with `.*`. Empty: all. */
  readonly kinds: readonly string[]
  /** Patterns of paths of the whole tree. Empty: all, also events without a path. */
  readonly paths: readonly string[]
  readonly enabled: boolean
  /** The reason for which the gateway has switched it off; undefined if an admin has. */
  readonly disabledReason: string | undefined
  readonly created: Date
}

/** An event that a webhook has not received yet. */
export interface DeliveryRow extends NewDelivery {
  readonly id: number
  /** The number of attempts that have failed. */
  readonly attempts: number
  /** The status of the last response. */
  readonly lastStatus: number | undefined
  /** The error of the last attempt, for admins. */
  readonly lastError: string | undefined
  /** When the last attempt has failed, after which there is no other. */
  readonly failedAt: Date | undefined
}
