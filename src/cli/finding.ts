/** The findings that `check` and `doctor` report. */
import { GatewayError, hasDetail, toGatewayError } from '../base/errors.js'
import type { Config } from '../installation/config.js'
import { withoutPassword } from '../database/store-url.js'

export interface Finding {
  readonly what: string
  /** Whether nothing is wrong; null: not checked. */
  readonly ok: boolean | null
  readonly detail: string
  /** The remedy, where `ok` is false: a line for a shell, or a sentence. */
  readonly remedy?: string
}

/**
 * The finding of `work`, which resolves to the detail of one without a fault, and rejects with the fault. A rejection
 * with `daemonRequired` is no fault.
 */
export async function finding(what: string, work: () => Promise<string>, remedy?: string): Promise<Finding> {
  try {
    return { what, ok: true, detail: await work() }
  } catch (error) {
    if (hasDetail(error, 'daemon_required')) return { what, ok: null, detail: error.reason }
    return wrong(what, reasonOf(error), remedy)
  }
}

export function wrong(what: string, detail: string, remedy?: string): Finding {
  return { what, ok: false, detail, ...(remedy !== undefined && { remedy }) }
}

/** The error of a check that only the daemon can make. */
export function daemonRequired(reason: string): GatewayError {
  return new GatewayError('unsupported', { detail: 'daemon_required', reason })
}

export function reasonOf(error: unknown): string {
  const { cause, code, reason } = toGatewayError(error)
  return cause instanceof Error && code === 'internal' ? cause.message : reason
}

export function wordFor(ok: boolean | null): string {
  if (ok === null) return 'not checked'
  return ok ? 'ok' : 'WRONG'
}

/**
 * A `tidegate` command on this installation, as a line for a shell. The URL of a database that has a password is in the
 * configuration file or in the environment, and stays there.
 */
export function commandLine({ data, store, configFile }: Installation, ...words: readonly string[]): string {
  const options = ['--data', data]
  if (configFile !== undefined) options.push('--config', configFile)
  if (store !== '' && store === withoutPassword(store)) options.push('--store', store)
  return ['tidegate', ...words, ...options].map(shellWord).join(' ')
}

type Installation = Pick<Config, 'data' | 'store' | 'configFile'>

/** A word as POSIX shells read it (POSIX.1-2024, Shell Command Language, §2.2.2). */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
