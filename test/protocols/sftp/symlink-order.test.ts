/** SYMLINK of clients that send the order of the draft, and of those that follow OpenSSH. */
import t from 'tap'
import ssh2, { type Client } from 'ssh2'
import { names, PacketClient, status, string, symlinkTypes } from './packet-client.js'
import { openChannel, password, serveProtocol } from './server-fixture.js'
import { startGateway } from '../../gateway.js'

const identifications = {
  'link first': [
    'AsyncSSH_2.21.0',
    'libssh_0.10.6',
    'libssh-0.5.4',
    'phpseclib_3.0 (openssl, gmp)',
    'SSHJ_0.38.0',
    'ssh2js1.17.0',
    'WinSCP_release_6.3.5',
  ],
  'target first': ['OpenSSH_9.2p1 Debian-2+deb12u3', 'libssh2_1.11.1', 'paramiko_3.5.1', 'Go', 'PuTTY_Release_0.83'],
}

void t.test('the order of the paths of SYMLINK follows from the identification of the client', async (t) => {
  const { gateway } = await startGateway(t, { config: { sftp: 'off' } })
  const running = await serveProtocol(t, gateway)
  const all = Object.entries(identifications).flatMap(([order, idents]) => idents.map((ident) => ({ order, ident })))
  for (const [index, { order, ident }] of all.entries()) {
    const client = new PacketClient(await openChannel(await running.connect({ ident })))
    await client.start()
    const [link, target] = [`/link${index}`, `target${index}.txt`]
    const paths = order === 'link first' ? [link, target] : [target, link]
    t.equal(await client.status(symlinkTypes.symlink, ...paths.map((path) => string(path))), status.ok, ident)
    const { type, body } = await client.ask(symlinkTypes.readlink, string(link))
    t.equal(type, 104, ident)
    t.equal(body.subarray(8, 8 + body.readUInt32BE(4)).toString(), target, ident)
    t.equal(await client.stat(`/${target}`, names.stat), status.noSuchFile, `${ident}: nothing at the target`)
  }
})

void t.test('symlink() of ssh2 makes the link', async (t) => {
  const { gateway } = await startGateway(t, { config: { sftp: 'off' } })
  const { port } = await serveProtocol(t, gateway)
  const client: Client = new ssh2.Client()
  t.teardown(() => client.end())
  const text = await new Promise<string>((resolve, reject) => {
    client.on('error', reject).once('ready', () => {
      client.sftp((error, sftp) => {
        if (error) reject(error)
        else
          sftp.symlink('target.txt', '/link', (failure) => {
            if (failure) reject(failure)
            sftp.readlink('/link', (_missing, target) => resolve(target))
          })
      })
    })
    client.connect({ host: '127.0.0.1', port, username: 'ada', password })
  })
  t.equal(text, 'target.txt')
})
