/** A field of a storage. Paths of the tree can be chosen from it. */
import { useState } from 'preact/hooks'
import { FormField } from '../components/form-field.tsx'
import { linesOf } from '../components/form-values.ts'
import { FolderChooser } from '../files/folder-chooser.tsx'
import { textsOf } from '../texts/texts.ts'
import type { FieldText } from './driver-texts.ts'
import type { Field } from './storage-values.ts'

const texts = textsOf('changes', 'admin')

interface StorageFieldProps {
  readonly field: Field
  /** Absent: what the server says, in English. */
  readonly text: FieldText | undefined
  readonly value: string
  readonly onValue: (value: string) => void
}

export function StorageField({ field, text, value, onValue }: StorageFieldProps) {
  return (
    <>
      <FormField field={field} label={text?.label} help={text?.help} showsName value={value} onValue={onValue} />
      {field.tree_path && <TreePath isList={field.type === 'text'} value={value} onValue={onValue} />}
    </>
  )
}

interface TreePathProps {
  /** Whether the value has a path on each line, to which another one is added. */
  readonly isList: boolean
  readonly value: string
  readonly onValue: (value: string) => void
}

function TreePath({ isList, value, onValue }: TreePathProps) {
  const [isChoosing, setChoosing] = useState(false)
  const [added, setAdded] = useState('/')
  const { storages } = texts
  const path = isList ? added : value
  return (
    <>
      <div>
        <button type="button" aria-expanded={isChoosing} onClick={() => setChoosing(!isChoosing)}>
          {isList ? storages.addFolder : texts.changes.choose}
        </button>
      </div>
      {isChoosing && <FolderChooser path={path.startsWith('/') ? path : '/'} onPath={isList ? setAdded : onValue} />}
      {isChoosing && isList && (
        <div>
          <button type="button" onClick={() => onValue([...linesOf(value), added].join('\n'))}>
            {storages.addThis(added)}
          </button>
        </div>
      )}
    </>
  )
}
