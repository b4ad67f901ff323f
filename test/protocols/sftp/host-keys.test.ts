/** Host keys: their creation, their files, and their rotation. */
import { mkdtemp, readFile, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ssh2 from 'ssh2'
import t from 'tap'
import { parseKeyLine } from '../../../src/accounts/public-keys.js'
import { loadHostKeys, generateKeyPair, publicHostKeys, rotateHostKeys } from '../../../protocols/sftp/host-keys.js'

void t.test('host keys are created once, in OpenSSH format, readable by their owner only', async (t) => {
  const data = await mkdtemp(join(tmpdir(), 'tidegate-host-keys-'))
  t.teardown(() => rm(data, { recursive: true, force: true }))
  const folder = join(data, 'ssh')
  const made = await loadHostKeys(folder)
  const types = made.map((key) => {
    const parsed = ssh2.utils.parseKey(key)
    return parsed instanceof Error ? parsed.message : parsed.type
  })
  t.same(types, ['ssh-ed25519', 'ssh-rsa'])
  for (const name of ['ssh_host_ed25519_key', 'ssh_host_rsa_key']) {
    t.equal((await stat(join(folder, name))).mode & 0o777, 0o600)
    t.match(await readFile(join(folder, name), 'utf8'), /^-----BEGIN OPENSSH PRIVATE KEY-----\n/)
    t.match(await readFile(join(folder, `${name}.pub`), 'utf8'), /^ssh-(ed25519|rsa) \S+ tidegate\n$/)
  }
  const { length } = Buffer.from(
    (await readFile(join(folder, 'ssh_host_rsa_key.pub'), 'utf8')).split(' ')[1] ?? '',
    'base64',
  )
  t.ok(length > 3072 / 8, 'the RSA key has 3072 bits')
  t.same(await loadHostKeys(folder), made, 'the next start loads the same keys')
})

void t.test('generateKeyPair() always returns a complete public key', async (t) => {
  // The library alone returns a short key for one in 256.
  for (let count = 0; count < 600; count++) {
    const { public: line } = await generateKeyPair('ed25519', { comment: 'test' })
    if (parseKeyLine(line).blob.length !== 51) t.fail(line)
  }
  t.pass('all 600 are complete')
})

void t.test('rotated host keys differ, take effect at the next start, and the old ones remain as files', async (t) => {
  const data = await mkdtemp(join(tmpdir(), 'tidegate-host-keys-'))
  t.teardown(() => rm(data, { recursive: true, force: true }))
  const folder = join(data, 'ssh')
  await t.rejects(publicHostKeys(folder), /there is no ssh_host_ed25519_key.pub/)
  const before = await loadHostKeys(folder)
  const shown = await publicHostKeys(folder)
  const kept = await rotateHostKeys(folder, new Date('2026-11-21T09:08:07.006Z'))
  const after = await loadHostKeys(folder)
  t.equal(new Set([...before, ...after]).size, 4)
  t.equal(new Set([...shown, ...(await publicHostKeys(folder))]).size, 4)
  t.equal(kept[0], join(folder, 'ssh_host_ed25519_key.old-20261121T090807Z'))
  t.equal(await readFile(kept[0] ?? '', 'utf8'), before[0])
  t.equal(await readFile(kept[2] ?? '', 'utf8'), before[1])
  t.equal((await stat(kept[0] ?? '')).mode & 0o777, 0o600)
  for (const [index, text] of after.entries()) {
    const parsed = ssh2.utils.parseKey(text)
    const line = (await publicHostKeys(folder))[index] ?? ''
    if (parsed instanceof Error) throw parsed
    t.ok(parseKeyLine(line).blob.equals(parsed.getPublicSSH()), 'the public key belongs to the private key')
  }
  t.same(
    (await readdir(folder)).filter((name) => name.endsWith('.new')),
    [],
  )
})
