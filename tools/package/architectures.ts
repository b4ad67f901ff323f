/** The machines that packages are made for. */

export interface Architecture {
  /** As Node.js and npm name it. */
  readonly name: 'x64' | 'arm64'
  /** As Debian names it. */
  readonly debian: string
  /** The prefix of the compilers and tools on another machine. */
  readonly toolPrefix: string
  /** The program that runs its binaries on another machine. */
  readonly emulator: string
}

export const architectures: readonly Architecture[] = [
  { name: 'x64', debian: 'amd64', toolPrefix: 'x86_64-linux-gnu-', emulator: 'qemu-x86_64-static' },
  { name: 'arm64', debian: 'arm64', toolPrefix: 'aarch64-linux-gnu-', emulator: 'qemu-aarch64-static' },
]

/** Whether this machine is of another architecture. */
export function isForeign({ name }: Architecture): boolean {
  return name !== process.arch
}
