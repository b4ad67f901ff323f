/** The driver type of generated files and folders, for tests and demonstrations. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const virtualFields = {
  root_folder_path: { type: 'string', help: 'Any text. It determines the generated files.' },
  num_file: { type: 'number', default: 30, required: true, basic: true, help: 'Files in each folder.' },
  num_folder: {
    type: 'number',
    default: 30,
    required: true,
    basic: true,
    help: 'Folders in each folder, two levels deep.',
  },
  max_file_size: { type: 'number', default: 1_073_741_824, required: true, help: 'Maximum size in bytes, exclusive.' },
  min_file_size: { type: 'number', default: 1_048_576, required: true, help: 'Minimum size in bytes.' },
} as const

export type VirtualOptions = OptionsOf<typeof virtualFields>

export const virtualType: DriverType<typeof virtualFields> = {
  name: 'Virtual',
  fields: virtualFields,
  facts: { readOnly: true, interactive: true },
  async open(options) {
    const { VirtualDriver } = await import('./virtual.js')
    return new VirtualDriver(options)
  },
}
