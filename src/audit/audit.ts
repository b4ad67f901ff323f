/**
 * The audit: what was done, refused or failed, and by whom (docs/decisions/0046). An event is appended to a file of
 * this process before its answer is sent, and moved to the database in groups. Whatever wants to know of events listens
 * here.
 */
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { Instance } from '../contract/driver-env.js'
import type { EventKind } from '../base/event-kinds.js'
import type { AuditEvent, EventFacts, NewDelivery } from '../database/audit-rows.js'
import type { Store } from '../database/tables.js'
import type { Settings } from '../settings/settings.js'
import { Flood } from './flood.js'
import { JournalFile, valuesIn } from './journal-file.js'
import { orderedIds } from './uuid.js'

export interface AuditOptions {
  readonly store: { readonly audit: Pick<Store['audit'], 'insert' | 'sweep'> }
  readonly settings: Pick<Settings, 'bool' | 'number'>
  /** The folder of the files. Processes may share it. */
  readonly folder: string
  readonly instance: Pick<Instance, 'name' | 'isOver'>
  /** The name of this node. */
  readonly node: string
  readonly log: Pick<Log, 'error' | 'warn'>
  /** Returns the deliveries to webhooks of new events. They are stored together with the events. */
  readonly deliveriesOf?: (events: readonly AuditEvent[]) => readonly NewDelivery[]
  /** Called after events were stored. */
  readonly onWritten?: () => void
  /** Gets every event that is recorded. Must not throw. */
  readonly write?: (event: AuditEvent) => void
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Milliseconds since any time, by a clock that is never set back. */
  readonly elapsed?: () => number
}

/** Events that wait for the database, and their file. */
interface Group {
  readonly file: JournalFile
  readonly events: AuditEvent[]
  /** The number of events, from the first of `events`, that are in the file. */
  written: number
  /** The number of further events that are only in the file, because too many are in memory. */
  onlyInFile: number
}

/** Times in milliseconds. */
const times = {
  /** From the first event of a group until the group is stored. */
  group: 250,
  /** From an attempt to store a group that has failed until the next one. */
  retry: 1000,
  /** Between two deletions of old events. */
  sweep: 600_000,
}
/** Numbers of events. */
const limits = {
  /** A group with so many is stored at once. */
  group: 500,
  /** In one file. */
  file: 5000,
  /** In memory. */
  inMemory: 10_000,
  /** Callers of `record` wait while more events than this are not stored. */
  notStored: 2000,
  /** In one transaction. */
  transaction: 1000,
}
const day = 86_400_000
const mebibyte = 1024 * 1024

/** Kinds that are recorded only if a setting says so. */
const optionalKinds: Partial<Record<EventKind, string>> = {
  read: 'audit_reads',
  locked: 'audit_details',
  unlocked: 'audit_details',
  'attributes.set': 'audit_details',
}

/** Whether the settings ask for an event of this kind. Who switches the audit on or off is always recorded. */
export function isRecordedBy(settings: Pick<Settings, 'bool'>, { kind, fields }: EventFacts): boolean {
  if (!settings.bool('audit_enabled')) return kind === 'admin.setting' && fields?.includes('audit_enabled') === true
  const optional = optionalKinds[kind]
  return optional === undefined || settings.bool(optional)
}

export class Audit {
  readonly #options: AuditOptions
  readonly #now: () => number
  readonly #idAt = orderedIds()
  readonly #listeners = new Set<(facts: EventFacts) => void>()
  readonly #flood: Flood
  /** Errors whose event was recorded. */
  readonly #recorded = new WeakSet<object>()
  /** In the order of their events. */
  readonly #groups: Group[] = []
  /** The last one, which gets the next event. */
  #open: Group | undefined
  /** An empty file, for the next group. */
  #spare: JournalFile | undefined
  /** Number of files that were made so far. */
  #files = 0
  /** Events that are in memory. */
  #inMemory = 0
  /** Events in memory that are in no file yet. */
  #notInFile = 0
  /** Events that are not in the database yet, in memory or in files alone. */
  #notStored = 0
  /** Bytes of all files. */
  #fileBytes = 0
  /** Events that could be written nowhere. */
  #lost = 0
  #timer: NodeJS.Timeout | undefined
  #storing: Promise<void> | undefined
  /** Whether the last attempt to store a group has failed. */
  #hasFailed = false
  readonly #closing = new AbortController()
  #sweeping: Promise<void> | undefined

  private constructor(options: AuditOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    const elapsed = options.elapsed ?? (() => performance.now())
    this.#flood = new Flood((facts) => void this.#add(facts), elapsed)
  }

  /** Opens the audit, after it has stored what processes that have ended have left. Rejects as the database does. */
  static async open(options: AuditOptions): Promise<Audit> {
    await mkdir(options.folder, { recursive: true, mode: 0o700 })
    const audit = new Audit(options)
    await audit.takeOver()
    const sweep = setInterval(() => void audit.#sweep(), times.sweep).unref()
    audit.#closing.signal.addEventListener('abort', () => clearInterval(sweep))
    return audit
  }

  /** Events that could be written nowhere. */
  get lost(): number {
    return this.#lost
  }

  /** Calls `listener` with each event of this process, also of kinds that are not recorded. Returns an unsubscriber. */
  on(listener: (facts: EventFacts) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Must be called before a change that adds or alters something. Throws `no_space` while events cannot be written, so
   * that nothing is done that cannot be recorded. Removals free space, and must not call it.
   */
  assertWritable(): void {
    if (this.#notInFile === 0 || !this.#options.settings.bool('audit_enabled')) return
    this.#writeRest()
    if (this.#notInFile > 0) throw new GatewayError('no_space', { detail: 'audit_full' })
  }

  /**
   * Records an event, before it is answered. Returns a promise only if the caller must wait: until the event is on
   * disk, or the database has caught up. Never throws: what cannot be written is counted in `lost`.
   */
  record(facts: EventFacts): Promise<void> | undefined {
    for (const listener of this.#listeners) listener(facts)
    const { settings } = this.#options
    if (!isRecordedBy(settings, facts)) return undefined
    if (this.#flood.holds(facts)) return undefined
    const group = this.#add(facts)
    if (group && settings.bool('audit_strict')) return this.#synced(group)
    return this.#notStored > limits.notStored && !this.#hasFailed ? this.#storing : undefined
  }

  /** Like `record`, for an event that ended with this error, unless its event was recorded. */
  recordError(error: object, facts: EventFacts): Promise<void> | undefined {
    if (this.#recorded.has(error)) return undefined
    this.#recorded.add(error)
    return this.record(facts)
  }

  /** Whether the event of this error was recorded. */
  hasRecorded(error: unknown): boolean {
    return typeof error === 'object' && error !== null && this.#recorded.has(error)
  }

  /** Stores the events that processes which have ended have left in the folder. Rejects as the database does. */
  async takeOver(): Promise<void> {
    const { folder, instance } = this.#options
    for (const name of await readdir(folder)) {
      const [, owner] = /^([\w-]+)-\d+\.ndjson$/.exec(name) ?? []
      if (owner === undefined || owner === instance.name || instance.isOver(owner) !== true) continue
      const file = join(folder, name)
      // If the file is gone, another process has stored its events.
      await this.#insert((await eventsIn(file).catch(ignoreMissing)) ?? [])
      await rm(file, { force: true })
    }
  }

  /** Stores all events that wait. Those that cannot be stored remain in their files, for the next start. */
  async close(): Promise<void> {
    this.#flood.close()
    this.#closing.abort()
    clearTimeout(this.#timer)
    await this.#sweeping
    await this.#storing
    await this.#store()
    clearTimeout(this.#timer)
    for (const { file } of this.#groups) await file.close()
    const spare = this.#spare
    this.#spare = undefined
    if (spare) await this.#release(spare)
    this.#lost += this.#notInFile
    if (this.#lost > 0) this.#options.log.error({ lost: this.#lost }, 'events of the audit were lost')
  }

  /** Adds an event to the open group. Undefined if it is lost. */
  #add(facts: EventFacts): Group | undefined {
    const { event, line } = encoded(this.#eventOf(facts))
    this.#options.write?.(event)
    if (this.#notInFile >= limits.inMemory) {
      this.#lost++
      return undefined
    }
    const group = this.#openGroup()
    group.events.push(event)
    this.#inMemory++
    this.#notInFile++
    this.#notStored++
    if (this.#notInFile > 1) this.#writeRest()
    else this.#write(group, line)
    if (this.#notInFile === 0 && this.#inMemory > limits.inMemory) {
      group.events.pop()
      group.written--
      group.onlyInFile++
      this.#inMemory--
    }
    this.#schedule(group.events.length >= limits.group)
    return group
  }

  /** Makes an event field by field: object spread takes longer than everything else here. */
  #eventOf(facts: EventFacts): AuditEvent {
    const time = this.#now()
    return {
      id: this.#idAt(time),
      time,
      node: this.#options.node,
      kind: facts.kind,
      actor: facts.actor,
      result: facts.result,
      path: facts.path,
      target: facts.target,
      size: integer(facts.size),
      entry: facts.entry,
      storage: facts.storage,
      error: facts.error,
      decidedBy: facts.decidedBy,
      subject: facts.subject,
      fields: facts.fields,
      duration: integer(facts.duration),
      count: facts.count,
    }
  }

  #openGroup(): Group {
    const open = this.#open
    if (open && open.events.length + open.onlyInFile < limits.file) return open
    const spare = this.#spare
    this.#spare = undefined
    // Lines in a file that somebody has removed would not outlive the process.
    const file = spare?.exists === true ? spare : this.#newFile()
    if (file !== spare) void spare?.close()
    const group = { file, events: [], written: 0, onlyInFile: 0 }
    this.#groups.push(group)
    return (this.#open = group)
  }

  #newFile(): JournalFile {
    const { folder, instance } = this.#options
    return new JournalFile(join(folder, `${instance.name}-${this.#files++}.ndjson`))
  }

  /** Appends the line of the first event of the group that is not in its file. False if that is not possible. */
  #write(group: Group, line: string): boolean {
    const mebibytes = this.#options.settings.number('audit_max_mib')
    const { size } = group.file
    try {
      if (mebibytes >= 0 && this.#fileBytes > mebibytes * mebibyte)
        throw new Error('the files of the audit are too large')
      group.file.append(line)
    } catch (error) {
      if (this.#notInFile === 1) this.#options.log.error({ err: error }, 'an event of the audit cannot be written')
      return false
    }
    group.written++
    this.#notInFile--
    this.#fileBytes += group.file.size - size
    return true
  }

  /** Appends the events that could not be appended before. */
  #writeRest(): void {
    for (const group of this.#groups) {
      for (let event = group.events[group.written]; event; event = group.events[group.written]) {
        if (!this.#write(group, encoded(event).line)) return
      }
    }
  }

  /** Resolves when the last event of the group is on disk: in its file, or in the database if the file fails. */
  async #synced({ file }: Group): Promise<void> {
    try {
      if (this.#notInFile === 0) {
        await file.sync()
        return
      }
    } catch (error) {
      this.#options.log.error({ err: error }, 'the audit cannot be synced')
    }
    this.#schedule(true)
    await this.#storing
  }

  #schedule(now: boolean): void {
    if (this.#storing || this.#closing.signal.aborted) return
    if (now && !this.#hasFailed) this.#begin()
    else this.#timer ??= setTimeout(() => this.#begin(), this.#hasFailed ? times.retry : times.group).unref()
  }

  #begin(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#storing ??= this.#store().finally(() => {
      this.#storing = undefined
      if (this.#groups.length > 0) this.#schedule(false)
    })
  }

  /** Stores all groups, as far as that is possible now. Never rejects. */
  async #store(): Promise<void> {
    for (let [group] = this.#groups; group; [group] = this.#groups) {
      if (group === this.#open) this.#open = undefined
      const { file, events, written, onlyInFile } = group
      try {
        const stored = onlyInFile === 0 ? undefined : await eventsIn(file.path).catch(ignoreMissing)
        await this.#insert(stored === undefined ? events : [...stored, ...events.slice(written)])
        // Another program has removed the file: the events that were only in it are lost.
        if (stored === undefined) this.#lost += onlyInFile
      } catch (error) {
        if (!this.#hasFailed) this.#options.log.error({ err: error }, 'events of the audit cannot be stored yet')
        this.#hasFailed = true
        return
      }
      this.#hasFailed = false
      this.#groups.shift()
      this.#inMemory -= events.length
      this.#notInFile -= events.length - group.written
      this.#notStored -= events.length + onlyInFile
      this.#fileBytes -= file.size
      await this.#release(file)
    }
  }

  /** Gives a file whose events are stored to the next group, unless that has one. */
  async #release(file: JournalFile): Promise<void> {
    try {
      if (this.#closing.signal.aborted || this.#spare !== undefined) await file.remove()
      else {
        await file.empty()
        this.#spare = file
      }
    } catch (error) {
      this.#options.log.warn({ err: error, file: file.path }, 'failed to empty or remove a file of the audit')
    }
  }

  async #insert(events: readonly AuditEvent[]): Promise<void> {
    for (let start = 0; start < events.length; start += limits.transaction) {
      await this.#insertSome(events.slice(start, start + limits.transaction))
    }
    if (events.length > 0) this.#options.onWritten?.()
  }

  /** An event that the database cannot store is lost: it must not keep the others from it. */
  async #insertSome(events: readonly AuditEvent[]): Promise<void> {
    const { store, deliveriesOf, log } = this.#options
    try {
      await store.audit.insert(events, deliveriesOf)
    } catch (error) {
      if (!isGatewayError(error, 'invalid')) throw error
      if (events.length === 1) {
        this.#lost++
        log.error({ err: error, event: events[0] }, 'an event of the audit cannot be stored')
        return
      }
      const middle = events.length >> 1
      await this.#insertSome(events.slice(0, middle))
      await this.#insertSome(events.slice(middle))
    }
  }

  async #sweep(): Promise<void> {
    const { store, settings, log } = this.#options
    const { signal } = this.#closing
    const [days, mebibytes] = [settings.number('audit_days'), settings.number('audit_max_mib')]
    const before = days < 0 ? 0 : Math.floor(this.#now() - days * day)
    const maxBytes = mebibytes < 0 ? Infinity : mebibytes * mebibyte
    this.#sweeping ??= store.audit
      .sweep(before, maxBytes, () => wait(20, undefined, { signal, ref: false }))
      .then(() => undefined)
      .catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, 'failed to remove old events of the audit')
      })
      .finally(() => (this.#sweeping = undefined))
    await this.#sweeping
  }
}

/** An event in the form in which it is stored, and its line. */
function encoded(event: AuditEvent): { readonly event: AuditEvent; readonly line: string } {
  const line = `${JSON.stringify(event)}\n`
  // NUL and lone surrogates are escaped like this, and most events have none.
  if (line.length < maxLine && !line.includes('\\u')) return { event, line }
  const cleaned = cleanedOf(event) as AuditEvent
  return { event: cleaned, line: `${JSON.stringify(cleaned)}\n` }
}

/** Maximum characters of a line that is written as it is, and of each text in a longer one. */
const maxLine = 10_000
const maxText = 4096

/** The value with texts that every database can store. */
function cleanedOf(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, maxText).toWellFormed().replaceAll('\0', '\ufffd')
  if (Array.isArray(value)) return value.slice(0, 100).map(cleanedOf)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, cleanedOf(field)]))
}

function integer(value: number | undefined): number | undefined {
  return value === undefined || Number.isSafeInteger(value) ? value : undefined
}

async function eventsIn(file: string): Promise<readonly AuditEvent[]> {
  return (await valuesIn(file)).filter(isEvent)
}

function ignoreMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}

/** Whether a value of a file is an event. */
function isEvent(value: unknown): value is AuditEvent {
  if (typeof value !== 'object' || value === null) return false
  const { id, time, node, kind, result, actor } = value as Partial<AuditEvent>
  const texts = [id, node, kind, result, actor?.name]
  return texts.every((text) => typeof text === 'string') && Number.isSafeInteger(time)
}
