//! Statements of many rows in few texts: any number of rows is a sum of powers of two, so that a few prepared
//! statements serve each. Knows no table.

/// The largest power of two that so many rows still fill, 2^`largest` at most. There has to be a row.
pub(super) fn largest_power(rows: usize, largest: usize) -> usize {
    (rows.ilog2() as usize).min(largest)
}

/// So many rows, taken away from the front of those that are left.
pub(super) fn next_chunk<'l, T>(left: &mut &'l [T], largest: usize) -> (usize, &'l [T]) {
    let power = largest_power(left.len(), largest);
    let (chunk, after) = left.split_at(1 << power);
    *left = after;
    (power, chunk)
}

#[cfg(test)]
mod tests {
    use super::next_chunk;

    #[test]
    fn chunks_are_powers_of_two_and_leave_nothing_out() {
        for (rows, powers) in [(1, vec![0]), (3, vec![1, 0]), (8, vec![3]), (21, vec![3, 3, 2, 0])] {
            let all: Vec<usize> = (0..rows).collect();
            let (mut left, mut taken, mut said) = (all.as_slice(), Vec::new(), Vec::new());
            while !left.is_empty() {
                let (power, chunk) = next_chunk(&mut left, 3);
                assert_eq!(chunk.len(), 1 << power);
                taken.extend_from_slice(chunk);
                said.push(power);
            }
            assert_eq!((taken, said), (all, powers));
        }
    }
}
