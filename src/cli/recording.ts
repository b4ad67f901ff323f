/** Records in the audit what commands change in a data folder. */
import { hostname, userInfo } from 'node:os'
import type { Command, OptionValues } from 'commander'
import { isRecordedBy } from '../audit/audit.js'
import { outcomeOf, type AuditEvent, type EventFacts, type EventKind } from '../audit/event.js'
import { AuditLog } from '../audit/log-target.js'
import { orderedIds } from '../audit/uuid.js'
import { toGatewayError } from '../base/errors.js'
import type { Store } from '../database/tables.js'
import type { Config } from '../installation/config.js'
import { EgressGuard } from '../net/egress.js'
import { createLog } from '../process/log.js'
import type { Settings } from '../settings/settings.js'
import { SharePseudonyms } from '../shares/pseudonyms.js'
import { Webhooks } from '../webhooks/webhooks.js'
import { warn } from './output.js'

/** The commands that change something, by their words. */
const kinds: Readonly<Record<string, EventKind>> = {
  'admin password': 'admin.user',
  'admin token': 'admin.setting',
  'admin host-keys': 'admin.other',
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
  'import alist': 'admin.other',
  'import openlist': 'admin.other',
  'import filebrowser': 'admin.other',
  'import quantum': 'admin.other',
  'tidegate restore': 'admin.other',
}

/** Commands that only show something if they get no option. */
const shown: ReadonlySet<string> = new Set(['admin host-keys', 'admin token'])

/** Options that say where or how, and not what is changed. */
const commonOptions = new Set(['data', 'config', 'store', 'json'])

/** The parts that are open while a command runs. */
interface RecordedFolder {
  readonly config: Pick<Config, 'site_url'>
  readonly store: Store
  readonly settings: Settings
}

/** The change that a command makes. */
interface CommandFacts extends Required<Pick<EventFacts, 'kind' | 'subject' | 'fields'>> {
  /** The id of a share and the one that it gets, as far as they are known: the subject is their pseudonyms. */
  readonly shareIds?: readonly string[]
}

/** The change of each running command, by the object of flags that the action of the command gets. */
const commands = new WeakMap<object, CommandFacts>()

/** Must be called before the action of a command. */
export function announce(command: Command): void {
  const words = `${command.parent?.name() ?? ''} ${command.name()}`
  const kind = kinds[words]
  if (kind === undefined) return
  const flags = command.opts()
  const [subject] = command.args
  const isGiven = (name: string) => !commonOptions.has(name) && command.getOptionValueSource(name) !== 'default'
  const options = Object.keys(flags).filter(isGiven).map(fieldName)
  if (shown.has(words) && options.length === 0) return
  commands.set(flags, { kind, fields: options, ...subjectOf(words, kind, subject, flags) })
}

function subjectOf(
  words: string,
  kind: EventKind,
  named: string | undefined,
  flags: OptionValues,
): Pick<CommandFacts, 'subject' | 'shareIds'> & Partial<CommandFacts> {
  // A setting is a field, as in requests.
  if (words === 'setting set') return { subject: undefined, fields: [named ?? ''] }
  // The kind does not say what was done.
  if (kind === 'admin.other') return { subject: words.replace(/^(?:tidegate|admin) /, '') }
  if (!kind.startsWith('share.')) return { subject: renamed(named, flags) }
  const ids: readonly unknown[] = [words === 'share add' ? undefined : named, flags.id]
  return { subject: undefined, shareIds: ids.filter((id) => typeof id === 'string') }
}

/** The command of these flags has made the share of this id. */
export function madeShare(flags: object, id: string): void {
  const facts = commands.get(flags)
  if (facts) commands.set(flags, { ...facts, shareIds: [id] })
}

/** The subject of a command, with its new name after an arrow, as of requests. */
function renamed(subject: string | undefined, flags: OptionValues): string | undefined {
  const to: unknown = flags.name ?? flags.username
  return subject !== undefined && typeof to === 'string' && to !== subject ? `${subject} → ${to}` : subject
}

/** The name of an option as fields of requests are written: `base_path`. */
function fieldName(option: string): string {
  return option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The words of the commands that the audit records, such as `user add`. */
export const recordedCommands: readonly string[] = Object.keys(kinds)

/** The daemon has done what the command of these flags does, and has recorded it. */
export function doneByDaemon(flags: object): void {
  commands.delete(flags)
}

/**
 * Runs what a command does in an open data folder, and records it as the daemon does if the command changes something,
 * unless the daemon has.
 */
export async function recorded<T>(flags: object, folder: RecordedFolder, work: () => Promise<T>): Promise<T> {
  if (!commands.has(flags)) return work()
  let result: T
  try {
    result = await work()
  } catch (error) {
    // The error of the command is what its user has to see.
    await record(flags, folder, outcomeOf(toGatewayError(error))).catch(() => undefined)
    throw error
  }
  await record(flags, folder, { result: 'done' })
  return result
}

/** The name of the user who runs this; in a container it may have a number only. */
function systemUser(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

/** Records how a command has ended. */
async function record(
  flags: object,
  folder: RecordedFolder,
  outcome: Pick<EventFacts, 'result' | 'error'>,
): Promise<void> {
  const { store, settings } = folder
  const command = commands.get(flags)
  if (command === undefined) return
  const { kind, fields, shareIds } = command
  const subject = shareIds === undefined ? command.subject : await pseudonymsOf(store, shareIds)
  const facts = { kind, actor: { name: systemUser(), protocol: 'command line' }, subject, fields, ...outcome }
  if (!isRecordedBy(settings, facts)) return
  const time = Date.now()
  const event: AuditEvent = { ...facts, id: orderedIds()(time), time, node: `${hostname()}:${process.pid}` }
  const deliveries = (await openWebhooks(folder)).deliveriesOf([event])
  await store.audit.insert([event], () => deliveries)
  await store.webhookDeliveries.announce(deliveries.map(({ hookId }) => hookId))
  const log = new AuditLog(settings, { warn: (_details: object, text: string) => warn(text) })
  log.write(event)
  await log.close()
}

async function pseudonymsOf({ secrets }: Store, ids: readonly string[]): Promise<string | undefined> {
  const pseudonyms = await SharePseudonyms.open(secrets)
  return ids.length === 0 ? undefined : [...new Set(ids)].map((id) => pseudonyms.of(id)).join(' → ')
}

/** The webhooks of an open data folder. This process delivers nothing. */
export function openWebhooks({ config, store, settings }: RecordedFolder): Promise<Webhooks> {
  const egress = new EgressGuard(() => settings.get('egress_networks'))
  return Webhooks.open({ store, egress, siteUrl: config.site_url, log: createLog('silent') })
}
