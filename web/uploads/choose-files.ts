export async function chooseFiles(_folder: string): Promise<void> {}
