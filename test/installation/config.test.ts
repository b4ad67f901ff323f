/** The configuration of the daemon: the precedence of its sources, invalid values, the JSON schema, and the example. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import {
  configFileSchema,
  configSchema,
  loadConfig,
  storeLocation,
  type ConfigFlags,
} from '../../src/installation/config.js'
import { secretVariable } from '../../src/installation/input.js'
import { splitAddress } from '../../src/net/addresses.js'
import { protocols } from '../../protocols/index.js'

async function configFile(t: Test, content: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-config-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'tidegate.json')
  await writeFile(file, content)
  return file
}

void t.test('without a file, flags or variables, the defaults apply', async (t) => {
  t.match(await loadConfig({ flags: {}, environment: {}, protocols }), {
    addresses: { http: '0.0.0.0:5244', sftp: '0.0.0.0:5222' },
    data: resolve('data'),
    drain_seconds: 30,
  })
})

void t.test('flags take precedence over the environment, the file and the defaults, in this order', async (t) => {
  const config = await configFile(t, '{ "http": "1.1.1.1:1", "sftp": "off", "token_hours": 5 }')
  const environment = { TIDEGATE_CONFIG: config, TIDEGATE_HTTP: '2.2.2.2:2', TIDEGATE_DATA: '/two' }
  t.match(await loadConfig({ flags: { config }, environment: {}, protocols }), {
    addresses: { http: '1.1.1.1:1', sftp: 'off' },
    token_hours: 5,
  })
  t.match(await loadConfig({ flags: {}, environment, protocols }), {
    addresses: { http: '2.2.2.2:2', sftp: 'off' },
    data: '/two',
  })
  const flags = { http: '[::1]:3', data: '/three' }
  t.match(await loadConfig({ flags, environment, protocols }), {
    addresses: { http: '[::1]:3', sftp: 'off' },
    data: '/three',
  })
})

void t.test('a bad configuration is rejected with one sentence that names the field', async (t) => {
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['{', /the configuration file .* is not JSON: /],
    ['[]', /must hold an object/],
    ['{ "htpp": "x:1" }', /^bad configuration: .*htpp/],
    ['{ "http": "nowhere" }', /^bad configuration: http: must be HOST:PORT/],
    ['{ "http": "localhost:65536" }', /^bad configuration: http: a port is a number up to 65535/],
    ['{ "http": "0.0.0.0:170200" }', /^bad configuration: http: a port is a number up to 65535/],
    ['{ "sftp": "0.0.0.0:170200" }', /^bad configuration: sftp: a port is a number up to 65535/],
    ['{ "sftp": 5222 }', /^bad configuration: sftp: must be HOST:PORT, or "off"/],
    ['{ "trusted_proxies": ["nonsense"] }', /^bad configuration: trusted_proxies.0: must be an address or a network/],
    ['{ "site_url": "ftp://x" }', /^bad configuration: site_url: must be empty, a path/],
    ['{ "dist_dir": "/web", "cdn": "ftp://x" }', /^bad configuration: cdn: must be empty, or a URL of http or https/],
    ['{ "dist_dir": "/web", "cdn": "https://x/?y" }', /^bad configuration: cdn: must be empty, or a URL/],
    [`{ "dist_dir": "/web", "cdn": "https://x/'y" }`, /^bad configuration: cdn: must be empty, or a URL/],
    ['{ "dist_dir": "/web", "cdn": "https://[" }', /^bad configuration: cdn: must be a URL/],
    ['{ "cdn": "https://cdn.example/build" }', /^bad configuration: cdn: is of use only beside dist_dir/],
    ['{ "token_hours": "48" }', /^bad configuration: token_hours: /],
  ]
  for (const [content, reason] of wrong) {
    const config = await configFile(t, content)
    await t.rejects(loadConfig({ flags: { config }, environment: {}, protocols }), { code: 'invalid', reason }, content)
    const named = { code: 'invalid', reason: new RegExp(config) }
    await t.rejects(loadConfig({ flags: { config }, environment: {}, protocols }), named, `${content} names the file`)
  }
  const config = await configFile(t, '{ "http": "nowhere" }')
  await t.rejects(loadConfig({ flags: { config, http: 'x' }, environment: {}, protocols }), {
    code: 'invalid',
    reason: 'bad configuration: http: must be HOST:PORT',
  })
  await t.rejects(loadConfig({ flags: { config: '/nowhere/at all' }, environment: {}, protocols }), {
    code: 'invalid',
    reason: 'the configuration file /nowhere/at all cannot be read: it does not exist',
  })
})

void t.test('trusted_proxies accepts addresses and networks only', async (t) => {
  const { trusted_proxies: none } = configSchema(protocols).parse({})
  t.notOk(none.check('127.0.0.1'))
  const proxies = ['127.0.0.1', '::1', '10.0.0.0/8', 'fd00::/8']
  const { trusted_proxies: list } = configSchema(protocols).parse({ trusted_proxies: proxies })
  for (const address of ['127.0.0.1', '10.255.0.1']) t.ok(list.check(address), address)
  for (const address of ['::1', 'fd00::7']) t.ok(list.check(address, 'ipv6'), address)
  for (const address of ['127.0.0.2', '11.0.0.1']) t.notOk(list.check(address), address)
  t.ok(
    configSchema(protocols)
      .parse({ trusted_proxies: ['0.0.0.0/0'] })
      .trusted_proxies.check('8.8.8.8'),
  )
  for (const text of ['', 'proxy.example', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0/8', 'fd00::/129', '*']) {
    t.notOk(configSchema(protocols).safeParse({ trusted_proxies: [text] }).success, text)
  }
})

void t.test('an address is split at its last colon', async (t) => {
  t.same(splitAddress('[2001:db8::1]:5244'), { host: '2001:db8::1', port: 5244 })
  t.same(splitAddress('localhost:0'), { host: 'localhost', port: 0 })
})

void t.test('config/schema.json is what `npm run docs` writes', async (t) => {
  t.equal(await readFile('config/schema.json', 'utf8'), configFileSchema(protocols))
})

void t.test('the example in config/ is a valid configuration', async (t) => {
  const config = await loadConfig({ flags: { config: 'config/tidegate.json' }, environment: {}, protocols })
  t.equal(config.site_url, 'https://files.example.org')
})

void t.test('the database is a file of the data folder, or PostgreSQL by flag, variable or file', async (t) => {
  const load = (flags: ConfigFlags, environment: Record<string, string> = {}) =>
    loadConfig({ flags: { data: '/srv/tide', ...flags }, environment, protocols })
  t.equal(storeLocation(await load({})), '/srv/tide/data.db')
  const url = 'postgres://tide@db/tidegate'
  t.equal(storeLocation(await load({ store: url })), url)
  const withPassword = 'postgresql://tide:secret@db/tidegate?sslmode=verify-full'
  t.equal(storeLocation(await load({}, { TIDEGATE_STORE: withPassword })), withPassword)
  await t.rejects(load({ store: withPassword }), { code: 'invalid', reason: /^(?!.*secret).*on the command line/ })
  await t.rejects(load({ store: 'mysql://db/x' }), { code: 'invalid', reason: /^bad configuration: store: / })
})

void t.test('a secret comes from a variable, or from the file that the variable with _FILE names', async (t) => {
  const file = await configFile(t, 'postgres://tide:secret@db/tidegate\n')
  const { store } = await loadConfig({ flags: {}, environment: { TIDEGATE_STORE_FILE: file }, protocols })
  t.equal(store, 'postgres://tide:secret@db/tidegate', 'in the configuration')

  const read = (environment: Record<string, string>) => secretVariable('SECRET', environment)
  t.equal(await read({}), undefined)
  t.equal(await read({ SECRET: 'tide', SECRET_FILE: '' }), 'tide')
  for (const [content, secret] of [
    ['tide', 'tide'],
    ['tide\r\n', 'tide'],
    [' tide \n\n', ' tide \n'],
    ['é'.repeat(32 * 1024), 'é'.repeat(32 * 1024)],
  ] as const) {
    t.equal(await read({ SECRET: '', SECRET_FILE: await configFile(t, content) }), secret)
  }
  const tooLarge = await configFile(t, 'x'.repeat(64 * 1024 + 1))
  const notText = await configFile(t, '')
  await writeFile(notText, Buffer.from([0xff]))
  for (const [environment, reason] of [
    [{ SECRET: 'tide', SECRET_FILE: file }, 'SECRET and SECRET_FILE are both set: unset one of them'],
    [{ SECRET_FILE: '/nowhere' }, /^the file \/nowhere, which SECRET_FILE names, cannot be read: ENOENT/],
    [{ SECRET_FILE: tmpdir() }, /cannot be read: EISDIR/],
    [{ SECRET_FILE: tooLarge }, /is larger than 64 KiB$/],
    [{ SECRET_FILE: '/dev/zero' }, /is larger than 64 KiB$/],
    [{ SECRET_FILE: await configFile(t, '\n') }, /is empty$/],
    [{ SECRET_FILE: notText }, /is not UTF-8$/],
  ] as const) {
    await t.rejects(read(environment), { code: 'invalid', reason }, String(reason))
  }
})
