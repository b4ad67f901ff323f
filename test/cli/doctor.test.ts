/**
 * `tidegate doctor` on installations that are broken in one way each: what it names, and whether its command mends it.
 */
import { execFile } from 'node:child_process'
import { chmod, chown, cp, mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { protocols } from '../../protocols/index.js'
import { examine } from '../../src/cli/doctor/doctor.js'
import { commandLine, type Finding } from '../../src/cli/finding.js'
import { asPath } from '../../src/base/path.js'
import { configSchema, type ConfigInput } from '../../src/installation/config.js'
import { newStorage } from '../../src/database/new-storage.js'
import { migrations } from '../../src/database/migrations.js'
import { openStore } from '../../src/database/store.js'
import type { Store } from '../../src/database/tables.js'
import { startGateway } from '../gateway.js'
import { groupRow, userRow } from '../database/store-rows.js'
import { makeCertificate } from '../servers/certificates.js'
import { withoutSqlite } from '../store-location.js'
import { main } from './outcome.js'
import t, { type Test } from 'tap'

const run = promisify(execFile)

interface Installation {
  readonly data: string
  /** A folder beside it. */
  readonly beside: string
  /** Changes the database. */
  readonly inStore: (work: (store: Store) => Promise<unknown>) => Promise<void>
  /** Adds a storage without asking whether it works. */
  readonly mount: (mountPath: string, driver: string, options: object) => Promise<void>
  /** Keys of the configuration, which the test sets. */
  readonly config: Record<string, unknown>
  configFile?: string
}

interface Break {
  readonly name: string
  readonly how: (installation: Installation) => Promise<unknown>
  /** What the doctor names. */
  readonly what: string
  /** False where the remedy is a sentence, because no command can mend it. */
  readonly isCommand?: boolean
  /** Whether only root can break it so. */
  readonly asRoot?: boolean
}

const local = (path: string) => ({ root_folder_path: path })
const closedPort = { host: '127.0.0.1', port: 1, username: 'nobody', password: 'secret' }

const breaks: readonly Break[] = [
  {
    name: 'the data folder is missing',
    how: ({ data }) => rm(data, { recursive: true }),
    what: 'data folder',
  },
  { name: 'others may enter the data folder', how: ({ data }) => chmod(data, 0o755), what: 'data folder' },
  {
    name: 'root has left a file in the data folder',
    how: async ({ data }) => {
      await chown(data, 4242, 4242)
      for (const name of ['data.db', 'ssh', 'files']) await chown(join(data, name), 4242, 4242)
      for (const name of ['spool', 'temp', 'rclone']) await rm(join(data, name), { recursive: true, force: true })
      await run('sh', ['-c', `chown -R 4242:4242 "$1"; chown 0 "$1/data.db"`, '-', data])
    },
    what: 'owners',
    asRoot: true,
  },
  {
    name: 'others may read a host key',
    how: ({ data }) => chmod(join(data, 'ssh', 'ssh_host_rsa_key'), 0o644),
    what: 'host key files',
  },
  {
    name: 'others may read the key of the certificate',
    how: async ({ beside, config }) => {
      const { certificate, key } = await makeCertificate(beside)
      await chmod(key, 0o644)
      Object.assign(config, { https: '127.0.0.1:0', tls_certificate: certificate, tls_key: key })
    },
    what: 'certificate key',
  },
  {
    name: 'the daemon may not read the key of the certificate',
    how: async ({ beside, config, data }) => {
      const { certificate, key } = await makeCertificate(beside)
      await chmod(key, 0o600)
      await run('chown', ['-R', '4242:4242', data])
      Object.assign(config, { https: '127.0.0.1:0', tls_certificate: certificate, tls_key: key })
    },
    what: 'certificate key',
    asRoot: true,
  },
  {
    name: 'the certificate has another key',
    how: async ({ beside, config }) => {
      const [one, other] = [await makeCertificate(beside), await makeCertificate(await mkdtemp(join(beside, 'other-')))]
      Object.assign(config, { https: '127.0.0.1:0', tls_certificate: one.certificate, tls_key: other.key })
    },
    what: 'certificate',
    isCommand: false,
  },
  {
    name: 'the folder of a storage is missing',
    how: ({ beside, mount }) => mount('/photos', 'Local', local(join(beside, 'photos'))),
    what: 'storage /photos',
  },
  {
    name: 'the daemon may not enter the folder of a storage',
    how: async ({ beside, data, mount }) => {
      await mkdir(join(beside, 'closed'), { mode: 0o700 })
      await mount('/closed', 'Local', local(join(beside, 'closed')))
      await run('chown', ['-R', '4242:4242', data])
    },
    what: 'folder of /closed',
    asRoot: true,
  },
  {
    name: 'two storages have the same folder',
    how: async ({ beside, mount }) => {
      await mount('/one', 'Local', local(beside))
      await mount('/two', 'Local', local(`${beside}/../${beside.split('/').at(-1) ?? ''}`))
    },
    what: 'folder of /two',
  },
  {
    name: 'a folder is named as the URLs of shares begin',
    how: async ({ beside, inStore, mount }) => {
      await mkdir(join(beside, '@s'))
      await mount('/more', 'Local', local(beside))
      await inStore(({ users }) => users.insert(userRow({ username: 'ann', basePath: asPath('/more') })))
    },
    what: 'names of URLs',
    isCommand: false,
  },
  {
    name: 'a storage shows what a grant denies',
    how: async ({ inStore, mount }) => {
      await mount('/all', 'Alias', { paths: '/' })
      await inStore(async ({ grants, groups }) => {
        const { id } = await groups.insert(groupRow({ name: 'sales' }))
        await grants.replace({ userId: undefined, groupId: id }, [{ path: asPath('/shut'), allow: [], deny: ['see'] }])
      })
    },
    what: 'grant at /shut',
  },
  {
    name: 'a storage has a driver that this version lacks',
    how: ({ mount }) => mount('/drive', 'GoogleDrive', {}),
    what: 'storage /drive',
  },
  {
    name: 'a storage lacks a mandatory option',
    how: ({ mount }) => mount('/server', 'SFTP', {}),
    what: 'storage /server',
  },
  {
    name: 'nothing listens at the address of a storage',
    how: ({ mount }) => mount('/server', 'FTP', { ...closedPort, address: '127.0.0.1:1' }),
    what: 'storage /server',
  },
  {
    name: 'the server of a storage does not answer',
    how: async ({ mount }) => {
      const { port } = silent.address() as AddressInfo
      await mount('/server', 'FTP', { ...closedPort, address: `127.0.0.1:${port}` })
    },
    what: 'storage /server',
  },
  {
    name: 'the admin is disabled',
    how: ({ inStore }) =>
      inStore(async ({ users }) => {
        const admin = (await users.all()).find(({ role }) => role === 'admin')
        await users.change(admin?.id ?? 0, () => ({ disabled: true }))
      }),
    what: 'admin',
  },
  {
    name: 'a number is stored as a word',
    how: ({ inStore }) => inStore(({ settings }) => settings.set(new Map([['link_expiration', 'never']]))),
    what: 'setting link_expiration',
  },
  {
    name: 'networks that cannot be parsed are stored',
    how: ({ inStore }) => inStore(({ settings }) => settings.set(new Map([['metrics_networks', 'everybody']]))),
    what: 'setting metrics_networks',
  },
  {
    name: 'the permanent token can be guessed',
    how: ({ inStore }) => inStore(({ settings }) => settings.set(new Map([['token', 'secret']]))),
    what: 'setting token',
  },
  {
    name: 'the folder of offline downloads is missing',
    how: ({ beside, inStore }) =>
      inStore(({ settings }) => settings.set(new Map([['offline_download_temp_dir', join(beside, "it's new")]]))),
    what: 'temporary folder',
  },
  {
    name: 'the provider of single sign-on cannot be reached',
    how: ({ inStore }) =>
      inStore(({ settings }) =>
        settings.set(
          new Map([
            ['egress_networks', '127.0.0.0/8'],
            ['sso_login_enabled', 'true'],
            ['sso_login_platform', 'OIDC'],
            ['sso_client_id', 'tidegate'],
            ['sso_endpoint_name', 'http://127.0.0.1:1'],
          ]),
        ),
      ),
    what: 'single sign-on',
    isCommand: false,
  },
  {
    name: 'the LDAP directory is in a network that is not allowed',
    how: ({ inStore }) =>
      inStore(({ settings }) =>
        settings.set(
          new Map([
            ['ldap_login_enabled', 'true'],
            ['ldap_server', 'ldap://127.0.0.1:1'],
          ]),
        ),
      ),
    what: 'LDAP',
    isCommand: false,
  },
  {
    name: 'a host key is damaged',
    how: ({ inStore }) => inStore(({ secrets }) => secrets.replace(new Map([['SSH host key rsa', 'damaged']]))),
    what: 'host keys',
  },
  {
    name: 'others may read the password of the database',
    how: async (installation) => {
      installation.configFile = join(installation.beside, 'tidegate.json')
      await writeFile(installation.configFile, '{}', { mode: 0o644 })
      installation.config.store = 'postgres://tidegate:secret@127.0.0.1:1/tidegate'
    },
    what: 'configuration file',
  },
  {
    name: 'a proxy is not trusted',
    how: async ({ config }) => Object.assign(config, { site_url: 'https://example.org/' }),
    what: 'proxies',
    isCommand: false,
  },
  {
    name: 'another program listens at the address of HTTP',
    how: async ({ config }) => {
      config.http = `127.0.0.1:${(silent.address() as AddressInfo).port}`
    },
    what: 'http',
    isCommand: false,
  },
  {
    name: 'the folder of the web client is empty',
    how: async ({ config, beside }) => Object.assign(config, { dist_dir: beside }),
    what: 'web client',
    isCommand: false,
  },
  {
    name: 'the database is damaged',
    how: ({ data }) => writeFile(join(data, 'data.db'), Buffer.alloc(65_536, 'x')),
    what: 'database',
    isCommand: false,
  },
  {
    name: 'the clock was set back',
    how: ({ data }) => utimes(join(data, 'data.db'), new Date(), new Date(Date.now() + 3_600_000)),
    what: 'clock',
    isCommand: false,
  },
]

/** Accepts connections, and says nothing. */
const silent = createServer()

/** Runs a remedy as its reader would, with `tidegate` on the path. */
async function follow(t: Test, remedy: string): Promise<void> {
  const bin = await mkdtemp(join(t.testdirName, 'bin-'))
  await writeFile(join(bin, 'tidegate'), `#!/bin/sh\nexec ${process.execPath} ${main} "$@"\n`, { mode: 0o755 })
  await run('sh', ['-ec', remedy], { env: { ...process.env, PATH: `${bin}:${process.env.PATH ?? ''}` } })
}

const faults = (findings: readonly Finding[]) => findings.filter(({ ok }) => ok === false)

await t.test('each broken installation', { skip: process.env.TIDEGATE_TEST_STORE !== undefined }, async (t) => {
  t.testdir()
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const started = await startGateway(t)
  await started.stop()
  for (const { name, how, what, isCommand = true, asRoot = false } of breaks) {
    await t.test(name, { skip: asRoot && process.getuid?.() !== 0 }, async (t) => {
      const folder = t.testdir()
      const [data, beside] = [join(folder, 'data'), join(folder, 'beside')]
      await cp(started.dataFolder, data, { recursive: true })
      await chmod(data, 0o700)
      await rm(join(data, 'daemon.pid'), { force: true })
      await mkdir(beside)
      const inStore: Installation['inStore'] = async (work) => {
        const store = await openStore(join(data, 'data.db'))
        await work(store)
        await store.close()
      }
      const installation: Installation = {
        ...{ data, beside, inStore },
        config: { http: '127.0.0.1:0', sftp: 'off' } satisfies ConfigInput,
        mount: (mountPath, driver, options) =>
          inStore(({ storages }) =>
            storages.insert(newStorage({ mountPath: asPath(mountPath), driver, addition: JSON.stringify(options) })),
          ),
      }
      const examined = () => {
        const { configFile } = installation
        const config = { ...configSchema(protocols).parse(installation.config), data, configFile }
        return examine(config, 300)
      }
      if (name === breaks[0]?.name) t.same(faults(await examined()), [], 'nothing is wrong before')
      await how(installation)
      const found = faults(await examined())
      const finding = found.find((each) => each.what === what)
      t.ok(finding?.remedy, `${JSON.stringify(found)} names ${what}`)
      if (!isCommand || finding?.remedy === undefined) return
      await follow(t, finding.remedy)
      t.notOk(
        faults(await examined()).find((each) => each.what === what),
        `mended by ${finding.remedy}`,
      )
    })
  }
})

await t.test('doctor prints each finding and what to do about it, and has the status 1', async (t) => {
  const data = join(t.testdir(), 'missing')
  const words = [main, 'doctor', '--data', data, '--http', '127.0.0.1:0', '--sftp', 'off']
  const { stdout, code } = (await run(process.execPath, words).catch(
    (error: unknown) => error as { readonly stdout: string; readonly code?: number },
  )) as { readonly stdout: string; readonly code?: number }
  t.equal(code, 1)
  t.match(stdout, `WRONG        data folder: there is no folder ${data}\n             → install -d -m 700 ${data} `)
  t.match(stdout, /^ok {11}Node\.js: v\d+/m)
  t.match(stdout, /^ok {11}ssh2: the compiled part is in use$/m)
})

void t.test('the command of a remedy names the same installation', (t) => {
  const data = '/srv/the data'
  const command = (store: string, configFile?: string) => commandLine({ data, store, configFile }, 'user', 'list')
  t.equal(command(''), "tidegate user list --data '/srv/the data'")
  t.equal(command('', '/etc/tide.json'), "tidegate user list --data '/srv/the data' --config /etc/tide.json")
  t.equal(command('postgres://db/tide'), "tidegate user list --data '/srv/the data' --store postgres://db/tide")
  t.notMatch(command('postgres://tide:secret@db/tide'), /--store|secret/)
  t.end()
})

void t.test('a database of an older version is not changed', { skip: withoutSqlite }, async (t) => {
  const data = t.testdir()
  const older = { steps: migrations.slice(0, -1) }
  await (await openStore(join(data, 'data.db'), older)).close()
  const config = { ...configSchema(protocols).parse({ http: '127.0.0.1:0', sftp: 'off' }), data }
  const found = await examine(config)
  t.match(
    found.find(({ what }) => what === 'database'),
    { ok: null, detail: /older version .* the daemon of this version upgrades it when it starts/ },
  )
  t.notOk(existsSync(join(data, 'backups')))
  const refused = () => Promise.reject(new Error('not upgraded'))
  await t.rejects(openStore(join(data, 'data.db'), { beforeUpgrade: refused }), { message: /not upgraded/ })
})
