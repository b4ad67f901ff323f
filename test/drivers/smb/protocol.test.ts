/**
 * The SMB client against Samba: every dialect, with and without signing and encryption, and more requests than credits.
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { ConnectionError, StatusError, status } from '../../../drivers/smb/client/errors.js'
import { Share, type SmbShareOptions } from '../../../drivers/smb/client/share.js'
import { signingAlgorithms } from '../../../drivers/smb/client/signing.js'
import { lacks } from '../../programs.js'
import { allDialects, dialects } from '../../../drivers/smb/client/keys.js'
import { sambaPrograms, startSamba, type SambaServer } from '../../servers/samba.js'

const limits = { connect: 5000, answer: 20_000, work: 60_000 }

function open({ port, username, password }: SambaServer, more: Partial<SmbShareOptions> = {}): Promise<Share> {
  return Share.open({
    host: '127.0.0.1',
    port,
    limits,
    share: '\\\\127.0.0.1\\files',
    credentials: { username, domain: '', password },
    protection: 'none',
    ...more,
  })
}

await t.test('the SMB client against Samba', { skip: lacks(...sambaPrograms) }, async (t) => {
  const server = await startSamba()
  t.teardown(() => server.stop())

  await t.test('every dialect works without protection, with signing and with encryption', async (t) => {
    for (const dialect of allDialects) {
      for (const protection of ['none', 'signing', 'encryption'] as const) {
        if (dialect === dialects.smb210 && protection === 'encryption') continue
        const name = `${dialect.toString(16)}-${protection}`
        const share = await open(server, { protection, dialects: [dialect] })
        t.match(share, { negotiated: { dialect }, isEncrypted: protection === 'encryption' }, name)
        t.equal(share.isSigned, protection !== 'none')
        const data = randomBytes(1024 * 1024)
        const { id } = await share.open(name, 'new')
        await share.write(id, 0, [data.subarray(0, 3), data.subarray(3)])
        t.ok((await share.read(id, 0, data.length)).equals(data))
        t.equal((await share.read(id, data.length, 10)).length, 0, 'no bytes beyond the end')
        await share.closeFile(id)
        t.match(await share.lookup('', name.toUpperCase()), { name, size: data.length })
        await share.removeAt(name)
        t.equal(await share.lookup('', name), undefined)
        share.close()
      }
    }
    const share = await open(server)
    t.match(
      share.negotiated,
      { dialect: dialects.smb311, signing: signingAlgorithms.aesGmac },
      'the best dialect and algorithm are negotiated',
    )
    share.close()
    await t.rejects(
      open(server, { protection: 'encryption', dialects: [dialects.smb210] }),
      { name: 'ConnectionError', kind: 'protocol' },
      'no encryption with SMB 2.1',
    )
  })

  await t.test('a server may require encryption, signing, a dialect or an algorithm', async (t) => {
    for (const [line, expected] of [
      ['server smb encrypt = required', { isEncrypted: true }],
      ['server signing = mandatory', { isSigned: true, isEncrypted: false }],
      ['server max protocol = SMB2_10', { negotiated: { dialect: dialects.smb210 } }],
      ['server max protocol = SMB3_00', { negotiated: { dialect: dialects.smb300 } }],
      ['server smb3 encryption algorithms = aes-256-gcm', { negotiated: { cipher: 4 } }],
      ['server smb3 signing algorithms = aes-128-cmac', { negotiated: { signing: signingAlgorithms.aesCmac } }],
    ] as const) {
      const strict = await startSamba({ global: [line] })
      const share = await open(strict, { protection: line.includes('256') ? 'encryption' : 'none' })
      t.match(share, expected, line)
      await share.makeFolder('folder')
      t.match(await share.facts('folder'), { name: 'folder', size: 0 })
      share.close()
      await strict.stop()
    }
    const modern = await startSamba({ global: ['server min protocol = SMB3_11'] })
    await t.rejects(open(modern, { dialects: [dialects.smb210] }), StatusError, 'no dialect in common')
    await modern.stop()
  })

  await t.test('requests beyond the granted credits wait', async (t) => {
    const few = await startSamba({ global: ['smb2 max credits = 32'] })
    for (const [which, each] of [
      ['default credits', server],
      ['few credits', few],
    ] as const) {
      const data = randomBytes(8 * 1024 * 1024)
      await writeFile(join(each.folder, 'large'), data)
      for (const protection of ['none', 'encryption'] as const) {
        const share = await open(each, { protection })
        const { id } = await share.open('large', 'read')
        const step = 65_537
        const pieces = await Promise.all(
          Array.from({ length: Math.ceil(data.length / step) }, (_, index) => share.read(id, index * step, step)),
        )
        t.ok(Buffer.concat(pieces).equals(data), `${which}, ${protection}: 128 reads`)
        const looks = await Promise.all(
          Array.from({ length: 500 }, (_, index) => share.lookup('', index % 2 === 0 ? 'large' : 'none')),
        )
        t.equal(looks.filter((found) => found?.size === data.length).length, 250, '500 chains')
        share.close()
      }
    }
    await few.stop()
  })

  await t.test('an error of the server is reported with its status', async (t) => {
    const share = await open(server)
    await share.makeFolder('taken')
    const refusals: readonly (readonly [() => Promise<unknown>, number])[] = [
      [() => share.open('none', 'read'), status.objectNameNotFound],
      [() => share.open('none\\none', 'read'), status.objectPathNotFound],
      [() => share.makeFolder('taken'), status.objectNameCollision],
      [() => share.open('taken', 'read'), status.fileIsADirectory],
      [() => share.closeFile(Buffer.alloc(16, 5)), status.fileClosed],
    ]
    for (const [call, code] of refusals) {
      await t.rejects(call(), { name: 'StatusError', status: code })
      t.equal(share.broken, undefined, 'the connection is still usable')
    }
    share.close()
    await t.rejects(share.facts(''), { name: 'ConnectionError', kind: 'closed' })
    const wrong = { username: server.username, domain: '', password: 'wrong' }
    await t.rejects(open(server, { credentials: wrong }), { name: 'StatusError', status: status.logonFailure })
    await t.rejects(open(server, { share: '\\\\x\\none' }), { name: 'StatusError', status: status.badNetworkName })
  })
})

await t.test('the SMB client rejects servers of another protocol', async (t) => {
  const fakes = {
    'says nothing': () => undefined,
    'speaks HTTP': () => Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
    'sends nonsense': () => Buffer.concat([Buffer.from([0, 0, 0, 64]), randomBytes(64)]),
    'sends the request back': (asked: Buffer) => asked,
    'sends a header alone': (asked: Buffer) => {
      const answer = Buffer.from(asked.subarray(0, 68))
      answer.writeUInt32BE(64)
      answer.writeUInt32LE(1, 4 + 16)
      return answer
    },
  }
  for (const [what, answer] of Object.entries(fakes)) {
    const fake = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (asked) => {
        const said = answer(asked)
        if (said !== undefined) socket.write(said)
      })
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => fake.once('listening', resolve))
    const opening = Share.open({
      host: '127.0.0.1',
      port: (fake.address() as AddressInfo).port,
      limits: { connect: 1000, answer: 500, work: 500 },
      share: '\\\\x\\y',
      credentials: { username: 'a', domain: '', password: 'b' },
      protection: 'none',
    })
    const error: unknown = await opening.catch((reason: unknown) => reason)
    t.type(error, ConnectionError, what)
    t.equal((error as ConnectionError).kind, what === 'says nothing' ? 'timeout' : 'protocol', what)
    await new Promise((resolve) => fake.close(resolve))
  }
})
