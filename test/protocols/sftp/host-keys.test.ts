/** Host keys: their creation, their copies in the data folder, their rotation, and keys that an admin brings. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import ssh2 from 'ssh2'
import t, { type Test } from 'tap'
import { parseKeyLine } from '../../../src/accounts/public-keys.js'
import { openStore } from '../../../src/database/store.js'
import type { Store } from '../../../src/database/tables.js'
import {
  generateKeyPair,
  importHostKeys,
  loadHostKeys,
  publicHostKeys,
  rotateHostKeys,
} from '../../../protocols/sftp/host-keys.js'
import { engines } from '../../database/engines.js'

type Secrets = Store['secrets']

const names = ['ssh_host_ed25519_key', 'ssh_host_rsa_key']
const now = new Date('2026-11-21T09:08:07.006Z')

async function newSecrets(t: Test, location = join(t.testdir(), 'tidegate.db')): Promise<Secrets> {
  const store = await openStore(location)
  t.teardown(() => store.close())
  return store.secrets
}

/** What a start loads, with what it logs. */
async function start(folder: string, secrets: Secrets) {
  const warnings: unknown[] = []
  const log = { warn: (details: object) => void warnings.push(details) }
  return { keys: await loadHostKeys(folder, Promise.resolve({ secrets, log })), warnings }
}

const privateKeys = (folder: string) => Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))

void t.test('host keys are created once, in OpenSSH format, readable by their owner only', async (t) => {
  const folder = join(t.testdir(), 'ssh')
  const secrets = await newSecrets(t)
  await t.rejects(publicHostKeys(secrets), { code: 'not_found', message: /there are no host keys yet/ })
  const { keys: made } = await start(folder, secrets)
  const types = made.map((key) => {
    const parsed = ssh2.utils.parseKey(key)
    return parsed instanceof Error ? parsed.message : parsed.type
  })
  t.same(types, ['ssh-ed25519', 'ssh-rsa'])
  t.same(await privateKeys(folder), made)
  for (const [index, name] of names.entries()) {
    t.equal((await stat(join(folder, name))).mode & 0o777, 0o600)
    t.match(await readFile(join(folder, name), 'utf8'), /^-----BEGIN OPENSSH PRIVATE KEY-----\n/)
    const line = await readFile(join(folder, `${name}.pub`), 'utf8')
    t.match(line, /^ssh-(ed25519|rsa) \S+ tidegate\n$/)
    t.equal((await publicHostKeys(secrets))[index], line.trim())
  }
  const [, rsa = ''] = await publicHostKeys(secrets)
  t.ok(parseKeyLine(rsa).blob.length > 3072 / 8, 'the RSA key has 3072 bits')
  t.same(await start(folder, secrets), { keys: made, warnings: [] }, 'the next start loads the same keys')
})

void t.test('generateKeyPair() always returns a complete public key', async (t) => {
  // The library alone returns a short key for one in 256.
  for (let count = 0; count < 600; count++) {
    const { public: line } = await generateKeyPair('ed25519', { comment: 'test' })
    if (parseKeyLine(line).blob.length !== 51) t.fail(line)
  }
  t.pass('all 600 are complete')
})

for (const engine of engines) {
  const { name, skip } = engine
  void t.test(`${name}: data folders with one database have the same keys`, { skip }, async (t) => {
    const location = await engine.newDatabase(t)
    const folders = ['one', 'two', 'three'].map((each) => join(t.testdir(), each))
    const stores = await Promise.all(folders.map(() => newSecrets(t, location)))
    const started = await Promise.all(
      folders.map(async (folder, index) => start(folder, stores[index] ?? (await newSecrets(t, location)))),
    )
    const [{ keys: first } = { keys: [] }] = started
    for (const { keys } of started) t.same(keys, first)
    for (const folder of folders) t.same(await privateKeys(folder), first)

    const [folder = '', other = ''] = folders
    const [secrets = await newSecrets(t, location)] = stores
    const kept = await rotateHostKeys(secrets, folder, now)
    t.equal(kept.length, 4)
    const { keys: after, warnings } = await start(other, secrets)
    t.equal(new Set([...first, ...after]).size, 4)
    t.same(after, await privateKeys(folder))
    t.same(after, await privateKeys(other), 'the copies of another node are replaced')
    t.match(warnings, [{ kept: { length: 4 } }])
    t.same(await start(other, secrets), { keys: after, warnings: [] })
  })
}

void t.test('keys that are in the folder before the first start are taken into the database', async (t) => {
  const folder = join(t.testdir(), 'ssh')
  const secrets = await newSecrets(t)
  const own = await generateKeyPair('ed25519', { comment: 'mine' })
  await mkdir(folder)
  await writeFile(join(folder, 'ssh_host_ed25519_key'), own.private, { mode: 0o600 })
  await writeFile(join(folder, 'ssh_host_ed25519_key.pub'), `${own.public.replace('mine', 'another comment')}\n`)
  const { keys, warnings } = await start(folder, secrets)
  t.equal(keys[0], own.private)
  t.same(warnings, [])
  t.equal((await publicHostKeys(secrets))[0], own.public)
  t.match(await readFile(join(folder, 'ssh_host_ed25519_key.pub'), 'utf8'), /another comment/)
})

void t.test('a file without a usable key is refused where it is needed, and replaced where it is not', async (t) => {
  const folder = t.testdir()
  const secrets = await newSecrets(t)
  const file = join(folder, 'ssh_host_ed25519_key')
  const { public: line } = await generateKeyPair('ed25519', { comment: 'x' })
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 })
    .privateKey.export({ type: 'pkcs1', format: 'pem' })
    .toString()
  for (const [text, why] of [
    ['', /unusable/],
    [line, /it is no private key/],
    [rsa, /it is of type ssh-rsa, not ssh-ed25519/],
  ] as const) {
    await writeFile(file, text)
    await t.rejects(start(folder, secrets), { code: 'invalid', message: why })
    t.equal(await readFile(file, 'utf8'), text)
    t.equal(await secrets.get('SSH host key ed25519'), undefined)
  }
  await rm(file)
  await writeFile(join(folder, 'ssh_host_rsa_key'), rsa)
  await t.rejects(start(folder, secrets), { code: 'invalid', message: /an RSA key needs 2048 bits/ })
  await rm(join(folder, 'ssh_host_rsa_key'))
  const { keys } = await start(folder, secrets)
  await writeFile(file, 'broken')
  const { warnings, ...again } = await start(folder, secrets)
  t.same(again, { keys })
  t.match(warnings, [{ kept: [/ssh_host_ed25519_key\.old-\w+$/] }])
  t.equal((await privateKeys(folder))[0], keys[0])
})

void t.test('rotated host keys differ, take effect at the next start, and the old ones remain as files', async (t) => {
  const folder = join(t.testdir(), 'ssh')
  const secrets = await newSecrets(t)
  const { keys: before } = await start(folder, secrets)
  const shown = await publicHostKeys(secrets)
  const kept = await rotateHostKeys(secrets, folder, now)
  const { keys: after, warnings } = await start(folder, secrets)
  t.same(warnings, [])
  t.equal(new Set([...before, ...after]).size, 4)
  t.equal(new Set([...shown, ...(await publicHostKeys(secrets))]).size, 4)
  t.equal(kept[0], join(folder, 'ssh_host_ed25519_key.old-20261121T090807Z'))
  t.equal(await readFile(kept[0] ?? '', 'utf8'), before[0])
  t.equal(await readFile(kept[2] ?? '', 'utf8'), before[1])
  t.equal((await stat(kept[0] ?? '')).mode & 0o777, 0o600)
  for (const [index, text] of after.entries()) {
    const parsed = ssh2.utils.parseKey(text)
    const line = (await publicHostKeys(secrets))[index] ?? ''
    if (parsed instanceof Error) throw parsed
    t.ok(parseKeyLine(line).blob.equals(parsed.getPublicSSH()), 'the public key belongs to the private key')
  }
  t.same(
    (await readdir(folder)).filter((name) => name.endsWith('.new')),
    [],
  )

  await t.test('a rotation where the copies are missing keeps the old keys of the database', async (t) => {
    const elsewhere = join(t.testdir(), 'ssh')
    const kept = await rotateHostKeys(secrets, elsewhere, now)
    t.same(await Promise.all(kept.map((path) => readFile(path, 'utf8'))), after)
    const again = await rotateHostKeys(secrets, elsewhere, now)
    t.equal(again[0], join(elsewhere, 'ssh_host_ed25519_key.old-20261121T090807Z-2'), 'a backup replaces no other')
  })
})

void t.test('--import takes keys that an admin brings, all or none', async (t) => {
  const folder = join(t.testdir(), 'ssh')
  const secrets = await newSecrets(t)
  await t.rejects(importHostKeys(secrets, folder), { code: 'not_found', message: /no ssh_host_ed25519_key/ })
  const { keys: before } = await start(folder, secrets)
  const own = [
    await generateKeyPair('ed25519', { comment: 'mine' }),
    await generateKeyPair('rsa', { bits: 2048, comment: 'mine' }),
  ]
  await writeFile(join(folder, 'ssh_host_ed25519_key'), own[0]?.private ?? '')
  await writeFile(join(folder, 'ssh_host_rsa_key'), 'broken')
  await t.rejects(importHostKeys(secrets, folder, now), { code: 'invalid', message: /ssh_host_rsa_key is unusable/ })
  t.same(await Promise.all(names.map((name) => secrets.get(`SSH host key ${name.split('_')[2]}`))), before)

  await writeFile(join(folder, 'ssh_host_rsa_key'), own[1]?.private ?? '')
  const kept = await importHostKeys(secrets, folder, now)
  t.same(
    await publicHostKeys(secrets),
    own.map((pair) => pair.public),
  )
  t.same(await Promise.all(kept.slice(0, 2).map((path) => readFile(path, 'utf8'))), before, 'the old keys are kept')
  t.equal(await readFile(join(folder, 'ssh_host_rsa_key.pub'), 'utf8'), `${own[1]?.public}\n`)
  const { keys, warnings } = await start(folder, secrets)
  t.same([keys, warnings], [own.map((pair) => pair.private), []])

  await t.test('back to the old keys; a missing file changes nothing', async (t) => {
    await rename(kept[0] ?? '', join(folder, 'ssh_host_ed25519_key'))
    await rm(join(folder, 'ssh_host_rsa_key'))
    await importHostKeys(secrets, folder, now)
    t.same((await start(folder, secrets)).keys, [before[0], own[1]?.private])
  })
})
