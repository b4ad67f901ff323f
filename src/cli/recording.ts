/** Records in the audit what commands change in a data folder. */
import { hostname, userInfo } from 'node:os'
import type { Command } from 'commander'
import { orderedIds } from '../audit/uuid.js'
import { outcomeOf, type Actor, type EventKind } from '../audit/event.js'
import { toGatewayError } from '../base/errors.js'
import type { Store } from '../database/tables.js'
import type { Settings } from '../settings/settings.js'

/** The commands that change something, by their words. */
const kinds: Readonly<Record<string, EventKind>> = {
  'admin password': 'admin.user',
  'admin token': 'admin.setting',
  'user add': 'admin.user',
  'user edit': 'admin.user',
  'user passwd': 'admin.user',
  'user reset-2fa': 'admin.user',
  'user enable': 'admin.user',
  'user disable': 'admin.user',
  'user rm': 'admin.user',
  'group add': 'admin.group',
  'group edit': 'admin.group',
  'group join': 'admin.group',
  'group leave': 'admin.group',
  'group rm': 'admin.group',
  'grant add': 'admin.grant',
  'grant rm': 'admin.grant',
  'key add': 'admin.key',
  'key rm': 'admin.key',
  'share add': 'share.made',
  'share edit': 'share.changed',
  'share enable': 'share.changed',
  'share disable': 'share.changed',
  'share rm': 'share.removed',
  'storage add': 'admin.storage',
  'storage edit': 'admin.storage',
  'storage enable': 'admin.storage',
  'storage disable': 'admin.storage',
  'storage rm': 'admin.storage',
  'setting set': 'admin.setting',
  'webhook add': 'admin.webhook',
  'webhook edit': 'admin.webhook',
  'webhook enable': 'admin.webhook',
  'webhook disable': 'admin.webhook',
  'webhook rotate': 'admin.webhook',
  'webhook test': 'admin.webhook',
  'webhook replay': 'admin.webhook',
  'webhook rm': 'admin.webhook',
  'sign-ins unlock': 'signin.unlocked',
}

/** Options that say where or how, and not what is changed. */
const commonOptions = new Set(['data', 'config', 'store', 'json'])

/** What a command changes. */
interface CommandFacts {
  readonly kind: EventKind
  readonly subject: string | undefined
  readonly fields: readonly string[]
}

/** By the flags that the action of the command gets. */
const commands = new WeakMap<object, CommandFacts>()

/** Must be called before the action of a command. */
export function announce(command: Command): void {
  const words = `${command.parent?.name() ?? ''} ${command.name()}`
  const kind = kinds[words]
  if (kind === undefined) return
  const flags = command.opts()
  const fields = Object.keys(flags).filter((name) => !commonOptions.has(name))
  commands.set(flags, { kind, subject: command.args[0], fields })
}

/** Whether the audit records the command of these words, such as `user add`. */
export function isRecorded(words: string): boolean {
  return words in kinds
}

/** The daemon has done what the command of these flags does, and has recorded it. */
export function doneByDaemon(flags: object): void {
  commands.delete(flags)
}

/**
 * Runs what a command does in an open data folder, and records it if the command changes something, unless the daemon
 * has.
 */
export async function recorded<T>(
  flags: object,
  { store, settings }: { readonly store: Pick<Store, 'audit'>; readonly settings: Pick<Settings, 'bool'> },
  work: () => Promise<T>,
): Promise<T> {
  const facts = commands.get(flags)
  if (facts === undefined || !settings.bool('audit_enabled')) return work()
  const time = Date.now()
  const actor: Actor = { name: userInfo().username, protocol: 'command line' }
  const event = { ...facts, actor, id: orderedIds()(time), time, node: `${hostname()}:${process.pid}` }
  let result: T
  try {
    result = await work()
  } catch (error) {
    // The error of the command is what its user has to see.
    await store.audit.insert([{ ...event, ...outcomeOf(toGatewayError(error)) }]).catch(() => undefined)
    throw error
  }
  if (commands.has(flags)) await store.audit.insert([{ ...event, result: 'done' }])
  return result
}
