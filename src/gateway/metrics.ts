/**
 * Metrics of the gateway, in the text format of Prometheus. Labels have configured values only, never paths or users.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { version } from '../base/version.js'
import type { Audit } from '../audit/audit.js'
import type { EventFacts } from '../audit/event.js'
import type { Events } from '../storage/events.js'
import { mountStates, type Mounts } from '../mounts/mounts.js'
import type { TransferEvent } from '../storage/transfer-meter.js'
import { taskKinds, taskStates } from '../tasks/task.js'
import type { LdapSignIn } from '../sign-in/ldap-sign-in.js'
import type { Tasks } from '../tasks/tasks.js'

interface MetricsDependencies {
  readonly audit: Pick<Audit, 'on' | 'lost'>
  readonly events: Pick<Events, 'onTransfer'>
  readonly ldap: Pick<LdapSignIn, 'counts'>
  readonly tasks: Pick<Tasks, 'all'>
  readonly mounts: Pick<Mounts, 'states'>
}

/** The sums of transfers with equal labels. Counters take them when they are read, not once for each small file. */
interface Series {
  readonly labels: Readonly<Record<'protocol' | 'storage' | 'direction' | 'outcome', string>>
  transfers: number
  bytes: number
}

/** The upper bounds of the buckets of durations, in seconds. */
const durationBuckets = [0.1, 1, 10, 60, 600, 3600]

export class Metrics {
  readonly #registry = new Registry()
  #hasProcessMetrics = false

  constructor({ audit, events, ldap, tasks, mounts }: MetricsDependencies) {
    const registers = [this.#registry]
    const labelNames = ['protocol', 'storage', 'direction', 'outcome'] as const
    const series = new Map<string, Series>()
    new Counter({
      name: 'tidegate_transfers_total',
      help: 'Transfers of file content that have ended. The protocol is "task" for tasks, the storage is its mount path.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const { labels, transfers } of series.values()) this.inc(labels, transfers)
      },
    })
    new Counter({
      name: 'tidegate_transfer_bytes_total',
      help: 'Bytes of file content that these transfers read from storages or wrote to them.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const { labels, bytes } of series.values()) this.inc(labels, bytes)
      },
    })
    const duration = new Histogram({
      name: 'tidegate_transfer_duration_seconds',
      help: 'Duration of these transfers.',
      labelNames: ['protocol', 'direction'] as const,
      buckets: durationBuckets,
      registers,
    })
    events.onTransfer((event: TransferEvent) => {
      const { by: protocol, direction, outcome } = event
      const storage = event.storage.mountPath
      const key = `${protocol} ${direction} ${outcome} ${storage}`
      let sums = series.get(key)
      if (!sums) {
        sums = { labels: { protocol, storage, direction, outcome }, transfers: 0, bytes: 0 }
        series.set(key, sums)
      }
      sums.transfers++
      sums.bytes += event.bytes
      duration.observe({ protocol, direction }, event.seconds)
    })
    const signIns = new Counter({
      name: 'tidegate_sign_ins_total',
      help: 'Sign-ins that succeeded, by what proved the user. One that each request repeats counts once an hour.',
      labelNames: ['by'] as const,
      registers,
    })
    audit.on((event) => {
      if (event.kind === 'signin.ok') signIns.inc({ by: provedBy(event) })
    })
    const counts = new Map<string, { readonly labels: { kind: string; result: string }; count: number }>()
    audit.on(({ kind, result }) => {
      const key = `${kind} ${result}`
      const counted = counts.get(key)
      if (counted) counted.count++
      else counts.set(key, { labels: { kind, result }, count: 1 })
    })
    new Counter({
      name: 'tidegate_events_total',
      help: 'Events, as the audit names them, also of kinds that it does not record.',
      labelNames: ['kind', 'result'] as const,
      registers,
      collect() {
        this.reset()
        for (const { labels, count } of counts.values()) this.inc(labels, count)
      },
    })
    new Counter({
      name: 'tidegate_audit_lost_total',
      help: 'Events that the audit could write neither to its files nor to the database.',
      registers,
      collect() {
        this.reset()
        this.inc(audit.lost)
      },
    })
    new Counter({
      name: 'tidegate_ldap_requests_total',
      help: 'Sign-ins and look-ups by the LDAP directory: answered, refused by it, or without an answer (silent).',
      labelNames: ['outcome'] as const,
      registers,
      collect() {
        this.reset()
        for (const [outcome, count] of Object.entries(ldap.counts)) this.inc({ outcome }, count)
      },
    })
    new Gauge({
      name: 'tidegate_storages',
      help: 'Storages by status.',
      labelNames: ['status'] as const,
      registers,
      collect() {
        for (const status of mountStates) this.set({ status }, 0)
        for (const status of mounts.states()) this.inc({ status })
      },
    })
    new Gauge({
      name: 'tidegate_tasks',
      help: 'Tasks by kind and state, including finished ones that are still listed.',
      labelNames: ['kind', 'state'] as const,
      registers,
      collect() {
        for (const kind of taskKinds) for (const state of taskStates) this.set({ kind, state }, 0)
        for (const { kind, state } of tasks.all) this.inc({ kind, state })
      },
    })
    new Gauge({
      name: 'tidegate_build_info',
      help: 'Always 1. The version is a label.',
      labelNames: ['version'] as const,
      registers,
    }).set({ version }, 1)
  }

  /** The media type of `text`. */
  get contentType(): string {
    return this.#registry.contentType
  }

  text(): Promise<string> {
    // They need a timer that runs 100 times a second, so only a gateway that is monitored has them.
    if (!this.#hasProcessMetrics) collectDefaultMetrics({ register: this.#registry })
    this.#hasProcessMetrics = true
    return this.#registry.metrics()
  }
}

/** Names of the proofs that are not a password of an account here. */
const proofs: Readonly<Record<string, string>> = {
  ...{ key: 'ssh key', app: 'app password', passkey: 'passkey' },
  ...{ oidc: 'provider', oauth: 'provider', ldap: 'directory' },
}

/** Returns the kind of proof of a sign-in. */
function provedBy({ subject, actor }: EventFacts): string {
  return proofs[subject ?? actor.credential?.split(':')[0] ?? ''] ?? 'password'
}
