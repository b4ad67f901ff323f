/** Webhooks: which events each of them gets, their deliveries, and their administration. */
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import PQueue from 'p-queue'
import { newestPages } from '../audit/pages.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { Egress } from '../contract/driver-env.js'
import type { AuditEvent, DeliveryRow, NewDelivery, WebhookRow } from '../database/audit-rows.js'
import type { Store } from '../database/tables.js'
import { maxDeliveries } from '../database/webhooks.js'
import { cloudEvent, cloudEventOf } from './cloud-event.js'
import { checkedFields, hookMatcher, maxHooks, type HookChanges, type HookFields } from './hook-fields.js'
import { failureOf, HookQueue, usualTimes, type DeliveryTimes } from './hook-queue.js'
import { send, type Answer } from './send.js'
import { newSecret, signedHeaders } from './signature.js'

/** The request of a process that stores deliveries to the process that sends them. */
export interface WebhookRequest {
  /** The ids of the hooks that have new deliveries. */
  readonly hooks: readonly number[]
}

interface WebhooksOptions {
  readonly store: Pick<Store, 'webhooks' | 'webhookDeliveries' | 'audit' | 'secrets'>
  readonly egress: Egress
  /** The URL of the site, a path of it, or empty. */
  readonly siteUrl: string
  readonly log: Pick<Log, 'warn'>
  /** For tests. */
  readonly times?: DeliveryTimes
}

/** A webhook as admins see it: without its secrets. */
export interface ShownWebhook extends Omit<WebhookRow, 'secret' | 'oldSecret'> {
  readonly waiting: number
  readonly failed: number
}

/**
 * The outcome of a test message. `status`: of the response; undefined if there was none. `error`: undefined after a
 * successful response.
 */
export interface TestOutcome {
  readonly status: number | undefined
  readonly error: string | undefined
  readonly milliseconds: number
}

/** Which events are delivered again. `from` and `to`: milliseconds since 1970; not before, and before. */
export type Replayed =
  { readonly eventIds: readonly string[] } | { readonly from: number; readonly to: number } | 'failed'

/** Milliseconds for which the secret before the last one signs too. */
const oldSecretTime = 24 * 60 * 60 * 1000
/** The most events that are delivered again by their ids. */
export const replayLimit = 1000

export class Webhooks {
  #hooks: readonly { readonly row: WebhookRow; readonly matches: (event: AuditEvent) => boolean }[] = []
  /** The queues of the hooks that are on, while this process delivers. */
  readonly #queues = new Map<number, { readonly row: WebhookRow; readonly queue: HookQueue }>()
  readonly #reloads = new PQueue({ concurrency: 1 })
  #isDelivering = false
  /** The hooks for which deliveries are being stored. */
  readonly #fresh = new Set<number>()
  #request: ((request: WebhookRequest) => Promise<void>) | undefined
  readonly #times: DeliveryTimes

  private constructor(
    private readonly options: WebhooksOptions,
    private readonly source: string,
  ) {
    this.#times = options.times ?? usualTimes
  }

  static async open(options: WebhooksOptions): Promise<Webhooks> {
    const id = await options.store.secrets.obtain('installation', randomUUID())
    const isUrl = URL.canParse(options.siteUrl)
    const webhooks = new Webhooks(options, isUrl ? options.siteUrl : `urn:tidegate:${id}`)
    await webhooks.reload()
    return webhooks
  }

  /** Reads the hooks again. */
  async reload(): Promise<void> {
    await this.#reloads.add(async () => {
      const rows = await this.options.store.webhooks.all()
      this.#hooks = rows.filter(({ enabled }) => enabled).map((row) => ({ row, matches: hookMatcher(row) }))
      this.#updateQueues()
    })
  }

  // Deliveries

  /** Returns the deliveries that have to be stored with these events. */
  readonly deliveriesOf = (events: readonly AuditEvent[]): readonly NewDelivery[] => {
    const deliveries: NewDelivery[] = []
    for (const event of this.#hooks.length === 0 ? [] : events) {
      const hooks = this.#hooks.filter(({ matches }) => matches(event))
      const body = hooks.length === 0 ? '' : cloudEventOf(event, this.source)
      for (const { row } of hooks) {
        this.#fresh.add(row.id)
        deliveries.push({ hookId: row.id, eventId: event.id, body, nextAt: 0 })
      }
    }
    return deliveries
  }

  /** To be called when the deliveries that `deliveriesOf` has returned are stored. */
  readonly onWritten = (): void => {
    if (this.#fresh.size === 0) return
    const request = { hooks: [...this.#fresh] }
    this.#fresh.clear()
    if (this.#isDelivering) this.handle(request)
    // The one that delivers reads the table again from time to time.
    else this.#request?.(request).catch(() => undefined)
  }

  /** From now on `request` asks the process that delivers. */
  askBy(request: (request: WebhookRequest) => Promise<void>): void {
    this.#request = request
  }

  /** This process delivers from now on, and no other one does. */
  begin(): void {
    this.#isDelivering = true
    this.#updateQueues()
  }

  /** This process delivers no more. What it is sending is sent again by the one that does. */
  end(): void {
    this.#isDelivering = false
    this.#updateQueues()
  }

  handle({ hooks }: WebhookRequest): void {
    for (const id of hooks) this.#queues.get(id)?.queue.wake()
  }

  #updateQueues(): void {
    const open = new Map(this.#isDelivering ? this.#hooks.map(({ row }) => [row.id, row]) : [])
    for (const [id, { row, queue }] of this.#queues) {
      if (isDeepStrictEqual(row, open.get(id))) continue
      queue.end()
      this.#queues.delete(id)
    }
    for (const row of open.values()) {
      const known = this.#queues.get(row.id)?.queue
      const queue = known ?? this.#queueOf(row)
      this.#queues.set(row.id, { row, queue })
      queue.wake()
    }
  }

  #queueOf(row: WebhookRow): HookQueue {
    const { store, log } = this.options
    const queue = new HookQueue({
      ...{ hookId: row.id, store, log, times: this.#times },
      send: ({ eventId, body }, signal) => this.#send(row, eventId, body, signal),
      switchOff: async (reason) => {
        if (await store.webhooks.switchOff(row.id, reason)) {
          log.warn({ hook: row.name, reason }, 'a webhook is switched off')
        }
        // It may have been switched on again, which leaves the row as it was: that needs another queue.
        queue.end()
        if (this.#queues.get(row.id)?.queue === queue) this.#queues.delete(row.id)
        await this.reload()
      },
    })
    return queue
  }

  #send({ url, secret, oldSecret, oldSecretEnds }: WebhookRow, id: string, body: string, signal: AbortSignal) {
    const { now, timeout } = this.#times
    const isValid = oldSecret !== undefined && oldSecretEnds !== undefined && oldSecretEnds.getTime() > now()
    const headers = signedHeaders(isValid ? [secret, oldSecret] : [secret], id, now(), body)
    return send({ url, headers, body, egress: this.options.egress, signal, timeout, now })
  }

  // Administration

  async list(): Promise<readonly ShownWebhook[]> {
    const { webhooks, webhookDeliveries } = this.options.store
    const [rows, counts] = await Promise.all([webhooks.all(), webhookDeliveries.counts()])
    return rows.map((row) => ({ ...withoutSecrets(row), ...(counts.get(row.id) ?? { waiting: 0, failed: 0 }) }))
  }

  /** Resolves also to the secret, which is not shown again. Rejects with `invalid`, and `exists` for a taken name. */
  async create(fields: HookFields): Promise<{ readonly row: ShownWebhook; readonly secret: string }> {
    const checked = { ...fields, ...checkedFields(fields) }
    const { webhooks } = this.options.store
    if ((await webhooks.all()).length >= maxHooks) throw invalid(`there can be at most ${maxHooks} webhooks`)
    const secret = newSecret()
    const row = await webhooks.insert({
      ...{ ...checked, secret, oldSecret: undefined, oldSecretEnds: undefined },
      ...{ disabledReason: undefined, created: new Date(this.#times.now()) },
    })
    await this.reload()
    return { row: { ...withoutSecrets(row), waiting: 0, failed: 0 }, secret }
  }

  /**
   * Absent fields are unchanged. What a hook still has to get begins anew when it is switched on. Rejects as `create`,
   * and with `not_found`.
   */
  async update(id: number, changes: HookChanges): Promise<void> {
    const checked = checkedFields(changes)
    const reason = checked.enabled === undefined ? {} : { disabledReason: undefined }
    await this.options.store.webhooks.update(id, { ...checked, ...reason })
    await this.reload()
  }

  /** Deletes a webhook and its deliveries. Rejects with `not_found`. */
  async delete(id: number): Promise<void> {
    const existed = await this.options.store.webhooks.delete(id)
    await this.reload()
    if (!existed) throw unknownHook()
  }

  /** Resolves to a new secret. The one before signs too, for a day. Rejects with `not_found`. */
  async rotate(id: number): Promise<string> {
    const { secret: oldSecret } = await this.#row(id)
    const secret = newSecret()
    const oldSecretEnds = new Date(this.#times.now() + oldSecretTime)
    await this.options.store.webhooks.update(id, { secret, oldSecret, oldSecretEnds })
    await this.reload()
    return secret
  }

  /** Sends an event of the type `tidegate.test` at once, also to a hook that is off. Rejects with `not_found`. */
  async test(id: number): Promise<TestOutcome> {
    const row = await this.#row(id)
    const event = { id: `test-${randomUUID()}`, time: this.#times.now(), type: 'test', data: { hook: row.name } }
    const start = performance.now()
    const body = cloudEvent({ ...event, source: this.source })
    const outcome: Answer | GatewayError = await this.#send(row, event.id, body, new AbortController().signal).catch(
      toGatewayError,
    )
    const milliseconds = Math.round(performance.now() - start)
    if (isGatewayError(outcome)) return { status: undefined, error: outcome.reason, milliseconds }
    const isSuccess = outcome.status >= 200 && outcome.status < 300
    return { status: outcome.status, error: isSuccess ? undefined : failureOf(outcome), milliseconds }
  }

  /**
   * The deliveries that are waiting, or those that have failed, with ids above `after`, in their order. Rejects with
   * `not_found`.
   */
  async deliveries(
    id: number,
    failed: boolean,
    page: { readonly after: number; readonly limit: number },
  ): Promise<readonly DeliveryRow[]> {
    await this.#row(id)
    return this.options.store.webhookDeliveries.list(id, failed, page)
  }

  /**
   * Delivers events again. Resolves to their number. Rejects with `not_found`, and with `invalid` for a hook that is
   * off, an unknown event, or if more than `maxDeliveries` would wait: some may have been added then.
   */
  async replay(id: number, which: Replayed): Promise<number> {
    const row = await this.#row(id)
    if (!row.enabled) throw invalid('the webhook is off: switch it on first')
    const count = await (which === 'failed'
      ? this.options.store.webhookDeliveries.restart(id).then(({ size }) => size)
      : 'eventIds' in which
        ? this.#replayEvents(id, which.eventIds)
        : this.#replayRange(row, which))
    // The database notifies another process that delivers of the change.
    this.handle({ hooks: [id] })
    return count
  }

  async #replayEvents(id: number, eventIds: readonly string[]): Promise<number> {
    const { audit, webhookDeliveries } = this.options.store
    const restarted = await webhookDeliveries.restart(id, eventIds)
    const others = [...new Set(eventIds)].filter((eventId) => !restarted.has(eventId))
    const events = await Promise.all(others.map((eventId) => audit.get(eventId)))
    const unknown = others.find((_, index) => events[index] === undefined)
    if (unknown !== undefined) throw invalid(`there is no event ${unknown.slice(0, 50)}`)
    await this.#add(
      id,
      events.filter((event) => event !== undefined),
    )
    return restarted.size + events.length
  }

  async #replayRange(row: WebhookRow, { from, to }: { readonly from: number; readonly to: number }): Promise<number> {
    const { audit, webhookDeliveries } = this.options.store
    const { waiting = 0, failed = 0 } = (await webhookDeliveries.counts()).get(row.id) ?? {}
    const matches = hookMatcher(row)
    let count = 0
    for await (const events of newestPages(audit, { from, to })) {
      const replayed = events.filter(matches)
      count += replayed.length
      if (waiting + failed + count > maxDeliveries) throw invalid(`more than ${maxDeliveries} deliveries would wait`)
      await this.#add(row.id, replayed)
    }
    return count
  }

  async #add(id: number, events: readonly AuditEvent[]): Promise<void> {
    if (events.length === 0) return
    const rows = events.map((event) => ({ eventId: event.id, body: cloudEventOf(event, this.source) }))
    await this.options.store.webhookDeliveries.replay(id, rows)
  }

  async #row(id: number): Promise<WebhookRow> {
    const row = (await this.options.store.webhooks.all()).find((each) => each.id === id)
    if (row === undefined) throw unknownHook()
    return row
  }
}

function withoutSecrets({ secret: _, oldSecret: __, ...shown }: WebhookRow): Omit<ShownWebhook, 'waiting' | 'failed'> {
  return shown
}

function unknownHook(): GatewayError {
  return new GatewayError('not_found', { reason: 'there is no such webhook' })
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
