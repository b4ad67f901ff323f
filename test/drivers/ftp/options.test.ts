/** Options of the FTP driver: explicit and implicit TLS, encodings of names, and invalid values. */
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { at, bytesAt, listed, namesIn, put, refuses, textAt, shownBy } from '../../driver-conformance/subject.js'
import { startPureFtpd } from '../../servers/pure-ftpd.js'
import { startVsftpd } from '../../servers/vsftpd.js'
import { emptyFolder, ftpSkip as skip, openFtpMount as open, started } from './mount.js'

const data = Buffer.alloc(3_000_000, 'tides and times ')

for (const [name, scheme, start] of [
  ['explicit, on Pure-FTPd', 'ftpes', () => startPureFtpd({ tlsOnly: true })],
  ['explicit, on vsftpd, which wants sessions resumed', 'ftpes', () => startVsftpd('explicit')],
  ['implicit, on vsftpd', 'ftps', () => startVsftpd('implicit')],
] as const) {
  void t.test(`TLS: ${name}`, { skip }, async (t) => {
    const server = await started(t, start)
    const { path } = await emptyFolder(server)
    const address = `${scheme}://localhost:${server.port}`
    await refuses(t, () => open(server, path, { address }), 'unavailable', 'an untrusted certificate')
    const driver = await open(server, path, { address, ca_certificate: server.certificate })
    for (const file of ['/one', '/two', '/three']) await put(driver, file, data)
    t.ok((await bytesAt(driver, '/one')).equals(data))
    t.ok((await bytesAt(driver, '/two', 1_000_000, 500_000)).equals(data.subarray(1_000_000, 1_500_000)))
    t.same(await namesIn(driver, '/'), ['one', 'three', 'two'])
    t.equal((await driver.stat(at('/three'))).size, data.length)
    await driver.close?.()
    const trusting = await open(server, path, { address, tls_insecure_skip_verify: true })
    t.equal((await driver.stat(at('/one')).catch(() => undefined))?.size, undefined, 'a closed driver stays closed')
    t.equal((await trusting.stat(at('/one'))).size, data.length)
    await trusting.close?.()
    if (scheme === 'ftps') return // such a server does not greet before the TLS handshake
    const plain = { address: `127.0.0.1:${server.port}` }
    await refuses(t, () => open(server, path, plain), ['unavailable', 'denied'], 'without TLS')
  })
}

void t.test('FTP reads and writes names in the encoding of the option', { skip }, async (t) => {
  for (const start of [() => startPureFtpd(), () => startVsftpd()]) {
    const server = await started(t, start)
    const { files, path } = await emptyFolder(server)
    // 世界 in GBK.
    const folder = Buffer.concat([Buffer.from(`${files}/`), Buffer.from([0xca, 0xc0, 0xbd, 0xe7])])
    await mkdir(folder, { mode: 0o777 })
    await writeFile(Buffer.concat([folder, Buffer.from('/in')]), 'inside')
    const driver = await open(server, path, { encoding: 'GBK' })
    t.same(await namesIn(driver, '/'), ['世界'])
    t.equal(await textAt(driver, '/世界/in'), 'inside')
    await put(driver, '/潮', 'x')
    t.ok((await readdir(files, { encoding: 'buffer' })).some((name) => name.equals(Buffer.from([0xb3, 0xb1]))))
    await refuses(t, () => put(driver, '/🦀', 'x'), 'invalid', 'a name that GBK cannot encode')
    await driver.close?.()
    const plain = await open(server, path)
    const { names, logged } = shownBy(plain)
    t.same(await names('/'), [], 'names that are not valid UTF-8 are left out')
    t.same(await names('/'), [])
    t.equal(logged.length, 1, 'they are logged once')
    await plain.close?.()
  }
})

void t.test(
  'FTP rejects names with control characters, so that a name cannot inject a command',
  { skip },
  async (t) => {
    const server = await started(t, () => startPureFtpd())
    const { files, path } = await emptyFolder(server)
    const driver = await open(server, path)
    await put(driver, '/file', 'x')
    for (const name of [`/a\r\nDELE ${path}/file`, '/a\nb', '/a\rb', '/a\u0000b', '/a\u0007']) {
      await refuses(t, () => put(driver, name, 'x'), 'invalid', 'write')
      await refuses(t, () => driver.mkdir(at(name)), 'invalid', 'mkdir')
      await refuses(t, () => driver.stat(at(name)), 'invalid', 'stat')
      await refuses(t, async () => driver.move?.(at('/file'), at(name)), 'invalid', 'move')
    }
    t.same(await readdir(files), ['file'])
    await driver.close?.()
  },
)

void t.test('FTP shows symlinks as their targets, and removes only the symlink', { skip }, async (t) => {
  for (const [start, dangling] of [
    [() => startPureFtpd(), [['nowhere', 'symlink', undefined]]],
    // LIST does not give the facts of a dangling symlink.
    [() => startVsftpd(), []],
  ] as const) {
    const server = await started(t, start)
    const { files, path } = await emptyFolder(server)
    await mkdir(join(files, 'folder'))
    await writeFile(join(files, 'folder', 'file'), 'content')
    await symlink('folder', join(files, 'to-folder'))
    await symlink('folder/file', join(files, 'to-file'))
    await symlink('missing', join(files, 'nowhere'))
    const driver = await open(server, path)
    const entries = await listed(driver, '/')
    t.same(
      entries.filter(({ name }) => name !== 'to-file').map(({ name, kind, isSymlink }) => [name, kind, isSymlink]),
      [['folder', 'folder', undefined], ...dangling, ['to-folder', 'folder', true]],
    )
    t.match(
      entries.find(({ name }) => name === 'to-file'),
      { kind: 'file', size: 7 },
    )
    for (const entry of entries) t.same(await driver.stat(at(`/${entry.name}`)), entry)
    t.equal(await textAt(driver, '/to-folder/file'), 'content')
    await driver.remove(at('/to-folder'))
    await driver.remove(at('/to-file'))
    t.equal(await readFile(join(files, 'folder', 'file'), 'utf8'), 'content', 'their targets remain')
    await driver.close?.()
  }
})

void t.test('FTP rejects wrong options with a fitting error', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd())
  const { files, path } = await emptyFolder(server)
  await writeFile(join(files, 'file'), 'x')
  const error = await open(server, path, { password: 'wrong-secret' }).then(
    () => undefined,
    (reason: unknown) => reason as Error & { code: string },
  )
  t.equal(error?.code, 'denied')
  t.notMatch(`${String(error)} ${JSON.stringify(error)} ${String(error?.cause)}`, /secret/, 'without the password')
  await refuses(t, () => open(server, path, { password: 'a\r\nDELE x' }), 'invalid', 'a password with a line break')
  await refuses(t, () => open(server, path, { address: 'host:port:more' }), 'invalid', 'an invalid address')
  await refuses(t, () => open(server, path, { address: 'http://host' }), 'invalid', 'another protocol')
  await refuses(t, () => open(server, path, { address: '127.0.0.1:1' }), 'unavailable', 'no server listens')
  await refuses(t, () => open(server, path, { encoding: 'Klingon' }), 'invalid', 'an unknown encoding')
  await refuses(t, () => open(server, path, { encoding: 'utf16' }), 'invalid', 'an encoding that FTP cannot transmit')
  await refuses(t, () => open(server, `${path}/missing`), 'invalid', 'a missing root')
  await refuses(t, () => open(server, `${path}/file`), 'invalid', 'a root that is a file')
})

void t.test('FTP: cwd_list enters a folder to list it', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd())
  const { path } = await emptyFolder(server)
  const driver = await open(server, path, { cwd_list: true })
  await driver.mkdir(at('/folder'))
  await put(driver, '/folder/file', 'x')
  t.same(await namesIn(driver, '/folder'), ['file'])
  await refuses(t, () => namesIn(driver, '/none'), 'not_found', 'a missing folder')
  await refuses(t, () => namesIn(driver, '/folder/file'), 'not_folder', 'a file')
  await driver.close?.()
})
