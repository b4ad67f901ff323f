/** The HTTP protocol over a real core, with a memory driver at the root. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { z } from 'zod'
import { memoryType } from '../../../drivers/memory/index.js'
import { httpHandler } from '../../../protocols/http/server.js'
import { WebClient } from '../../../protocols/http/site/web-client.js'
import type { taskData } from '../../../protocols/http/compat/task-object.js'
import { sitePath } from '../../../protocols/lib/client.js'
import { permissionBits, type Permission } from '../../../src/accounts/principal.js'
import type { AnyDriverType } from '../../../src/contract/driver-type.js'
import { GatewayError } from '../../../src/base/errors.js'
import type { Path } from '../../../src/base/path.js'
import { configSchema, type ConfigInput } from '../../../src/installation/config.js'
import { Gateway } from '../../../src/gateway/gateway.js'
import { createLog } from '../../../src/process/log.js'
import type { Grant } from '../../../src/database/tables/grants.js'
import type { FolderRule } from '../../../src/database/tables/rules.js'
import type { TaskKind } from '../../../src/tasks/task.js'
import '../../fast-hashes.js'
import { runFirst } from '../../first-run.js'
import { grantRow, ruleRow } from '../../database/store-rows.js'
import { assertDeclared } from './declared.js'
import { listen } from './listen.js'
import { protocols } from '../../../protocols/index.js'

export const adminPassword = 'admin password'

/** The first run mounts a driver of this name at the root. */
const localInMemory: AnyDriverType = {
  name: 'Local',
  fields: { root_folder_path: { type: 'string', default: '' } },
  facts: { directUrls: 'preferred' },
  open: () => memoryType.open({ size_limit: 0, case_sensitive: true }, undefined as never),
}

/** A driver that never starts, and reports the reason of its options. */
const broken: AnyDriverType = {
  name: 'Broken',
  fields: { reason: { type: 'string', default: 'out of order' }, count: { type: 'number' } },
  open: ({ reason }: { reason: string }) => Promise.reject(new GatewayError('unavailable', { reason })),
}

export interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

export type TaskShown = z.output<typeof taskData>

export class Served {
  constructor(
    readonly url: string,
    readonly gateway: Gateway,
    public token = '',
  ) {}

  /** The envelope, after a comparison with the declaration of its endpoint, which covers the name of a failure. */
  async #ask(path: string, init: RequestInit): Promise<Envelope> {
    const response = await fetch(this.url + path, init)
    if (response.status !== 200) throw new Error(`real status ${response.status}`)
    const answer = (await response.json()) as Envelope & { readonly error?: string }
    assertDeclared(init.method ?? 'GET', path, answer)
    const { error: _, ...envelope } = answer
    return envelope
  }

  async post(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<Envelope> {
    const sent = { 'content-type': 'application/json', authorization: this.token, ...headers }
    return this.#ask(path, { method: 'POST', body: JSON.stringify(body), headers: sent })
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<Envelope> {
    return this.#ask(path, { headers: { authorization: this.token, ...headers } })
  }

  async put(path: string, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Envelope> {
    const sent = { authorization: this.token, 'file-path': encodeURIComponent(path), ...headers }
    return this.#ask('/api/fs/put', { method: 'PUT', body, headers: sent })
  }

  async form(path: string, form: FormData): Promise<Envelope> {
    return this.#ask(path, { method: 'POST', body: form, headers: { authorization: this.token } })
  }

  async names(path: string): Promise<string[]> {
    const { data } = await this.post('/api/fs/list', { path })
    return (data as { content: { name: string }[] }).content.map(({ name }) => name)
  }

  /** The content of a file, by its signed URL. */
  async content(path: string): Promise<string> {
    const { data, message } = await this.post('/api/fs/get', { path })
    if (data === null) return message
    return (await fetch((data as { raw_url: string }).raw_url)).text()
  }

  /** This server for another user, signed in. */
  async as(username: string, permissions: readonly Permission[], base = '/'): Promise<Served> {
    await this.gateway.accounts.users.create({
      username,
      password: 'password',
      basePath: base,
      role: 'general',
      permission: permissions.reduce((sum, permission) => sum + permissionBits[permission], 0),
      disabled: false,
      ssoId: '',
    })
    const { data } = await this.post('/api/auth/login', { username, password: 'password' })
    return new Served(this.url, this.gateway, (data as { token: string }).token)
  }

  /** The tasks of a kind, when all of them have ended. */
  async ended(kind: TaskKind): Promise<TaskShown[]> {
    for (;;) {
      const { data } = await this.get(`/api/task/${kind}/undone`)
      if ((data as unknown[]).length === 0) break
      await delay(20)
    }
    return (await this.get(`/api/task/${kind}/done`)).data as TaskShown[]
  }

  /** Mounts another storage. `fields` replace the default fields. */
  async mount(path: string, driver: string, fields: Readonly<Record<string, unknown>> = {}): Promise<Envelope> {
    const row = { mount_path: path, driver, cache_expiration: 0, addition: '{}', ...fields }
    return this.post('/api/admin/storage/create', row)
  }

  async rule(path: string, rule: Partial<FolderRule>): Promise<void> {
    await this.gateway.rules.create(ruleRow({ path: path as Path, ...rule }))
  }

  async grant(username: string, path: string, fields: Pick<Partial<Grant>, 'allow' | 'deny'>): Promise<void> {
    const userId = this.gateway.accounts.users.byName(username)?.id
    await this.gateway.store.grants.insert(grantRow({ userId, path: path as Path, ...fields }))
    await this.gateway.grants.reload()
  }
}

/**
 * Signed in as admin. `drivers`: additional driver types; `file`: keys of the configuration file; `consoleFolder`: the
 * built console, by default none.
 */
export async function serve(
  test: Test,
  siteUrl = '',
  drivers: readonly AnyDriverType[] = [],
  file: ConfigInput = {},
  consoleFolder = '/nowhere',
): Promise<Served> {
  const config = {
    ...configSchema(protocols).parse({ site_url: siteUrl, ...file }),
    data: join(test.testdir(), 'data'),
  }
  const log = createLog('silent')
  const allDrivers = [localInMemory, broken, ...drivers]
  await runFirst(config.data, adminPassword, allDrivers)
  const gateway = await Gateway.open({
    config,
    log,
    drivers: allDrivers,
    protocols,
    admin: { password: adminPassword },
  })
  test.teardown(() => gateway.close())
  const web = await (config.dist_dir === ''
    ? WebClient.openConsole(config, log, consoleFolder)
    : WebClient.open(config, log))
  const api = httpHandler(gateway, { trustedProxies: config.trusted_proxies, siteUrl }, web)
  const url = await listen(test, api)
  const served = new Served(url + sitePath(siteUrl), gateway)
  const { data } = await served.post('/api/auth/login', { username: 'admin', password: adminPassword })
  served.token = (data as { token: string }).token
  return served
}
