/** A proxy for an FTP server, on loopback: the test decides for each command what the proxy does with it. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/**
 * The command is forwarded; the connection is closed before the command, or before its reply, arrives; or the proxy
 * sends a text, instead of the reply or before it.
 */
export type Fate = 'pass' | 'lost' | 'answer lost' | { readonly answer: string } | { readonly before: string }

interface FtpFront {
  readonly port: number
  /** Number of connections so far. */
  readonly made: number
  /** Sends a text to all connected clients. */
  say(text: string): void
  stop(): Promise<void>
}

/**
 * `fate` decides on one command, and gets the number of its connection, from 1. With `tls` the proxy uses implicit TLS
 * to its clients, independently of the server.
 */
export async function startFtpFront(
  target: number,
  fate: (command: string, connection: number) => Fate,
  tls?: TlsOptions,
): Promise<FtpFront> {
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  let made = 0
  const attend = (client: Socket) => {
    const connection = ++made
    const upstream = connect(target, '127.0.0.1')
    clients.add(client)
    const end = () => {
      clients.delete(client)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true).setEncoding('latin1').on('error', end)
      socket.once('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    let losesAnswer = false
    upstream.on('data', (text: string) => (losesAnswer ? end() : client.write(text, 'latin1')))
    let rest = ''
    client.on('data', (text: string) => {
      const lines = (rest + text).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (client.destroyed) return
        const decided = fate(line, connection)
        if (typeof decided === 'object') {
          client.write(`${'answer' in decided ? decided.answer : decided.before}\r\n`, 'latin1')
          if ('answer' in decided) continue
        }
        losesAnswer = decided === 'answer lost'
        if (decided === 'lost') end()
        else upstream.write(`${line}\r\n`, 'latin1')
      }
    })
  }
  const server = tls ? createTlsServer(tls, attend) : createServer(attend)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get made() {
      return made
    },
    say(text) {
      for (const client of clients) client.write(`${text}\r\n`, 'latin1')
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}
