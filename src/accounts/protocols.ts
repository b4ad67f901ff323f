/**
 * The protocols and what the rest of the daemon has to know of each: one row per protocol. How a protocol works is in
 * its folder in protocols/; `src/process/daemon.ts` starts it.
 */
import type { Permission } from './principal.js'

/** An address that a protocol listens on: a key of the configuration, `--KEY` and `TIDEGATE_KEY` of the same name. */
export interface ListenAddress {
  /** `HOST:PORT`. */
  readonly default: string
  readonly description: string
  /** Whether "off" is accepted instead of an address. */
  readonly optional: boolean
}

interface ProtocolFacts {
  /** What users need to read by it, and to change anything by it. Undefined: every user may use it. */
  readonly permissions?: { readonly read: Permission; readonly manage: Permission }
  /** Whether users can sign in by it with an app password. */
  readonly appPasswords: boolean
  /** Undefined: it answers below a path of the HTTP address. */
  readonly listen?: ListenAddress
}

const rows = {
  http: {
    appPasswords: false,
    listen: { default: '0.0.0.0:5244', description: 'address of the HTTP API and WebDAV', optional: false },
  },
  webdav: {
    permissions: { read: 'webdavRead', manage: 'webdavManage' },
    appPasswords: true,
  },
  sftp: {
    permissions: { read: 'sftpRead', manage: 'sftpManage' },
    appPasswords: true,
    listen: { default: '0.0.0.0:5222', description: 'address of the SFTP server, or "off"', optional: true },
  },
} as const satisfies Readonly<Record<string, ProtocolFacts>>

type Rows = typeof rows
export type ProtocolName = keyof Rows
/** The protocols with an address of their own. */
export type ListenerName = {
  [Name in ProtocolName]: Rows[Name] extends { listen: unknown } ? Name : never
}[ProtocolName]
/** The protocols that accept app passwords. */
export type AppPasswordProtocol = {
  [Name in ProtocolName]: Rows[Name]['appPasswords'] extends true ? Name : never
}[ProtocolName]

export const protocols: Readonly<Record<ProtocolName, ProtocolFacts>> = rows
export const protocolNames = Object.keys(rows) as readonly ProtocolName[]

export const appPasswordProtocols = protocolNames.filter((name): name is AppPasswordProtocol => rows[name].appPasswords)

/** The listen addresses by protocol. */
export const listeners = Object.fromEntries(
  protocolNames.flatMap((name) => (protocols[name].listen ? [[name, protocols[name].listen]] : [])),
) as Readonly<Record<ListenerName, ListenAddress>>
export const listenerNames = Object.keys(listeners) as readonly ListenerName[]
