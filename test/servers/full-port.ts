/** A port of loopback that accepts no connection: its backlog is full, and the listening thread is blocked. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'

const listening = `
const { createServer } = require('node:net')
const { parentPort } = require('node:worker_threads')
const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  parentPort.postMessage(server.address().port)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
})`

interface FullPort {
  readonly port: number
  stop(): Promise<void>
}

export async function startFullPort(): Promise<FullPort> {
  const worker = new Worker(listening, { eval: true })
  const [port] = (await once(worker, 'message')) as [number]
  const sockets: Socket[] = []
  const isLetIn = async () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    sockets.push(socket)
    return Promise.race([once(socket, 'connect').then(() => true), pause(200, false)])
  }
  while (await isLetIn());
  return {
    port,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await worker.terminate()
    },
  }
}
