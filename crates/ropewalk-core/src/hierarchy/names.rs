//! What tool operations are called when they are taken out of the record of their assistant, and back.

const CALL: &str = "_tool_";
const RESULT: &str = "_result_";

/// The name of an assistant's call, by its place among the calls of that record.
pub fn call_name(assistant: &str, index: usize) -> String {
    format!("{assistant}{CALL}{index}")
}

/// The name of that call's result.
pub fn result_name(assistant: &str, index: usize) -> String {
    format!("{assistant}{RESULT}{index}")
}

/// The record that a call of this name was taken out of.
pub fn assistant_of_call(call: &str) -> Option<&str> {
    call.rsplit_once(CALL).map(|(assistant, _)| assistant)
}

/// The name of the call that a result of this name belongs to.
pub fn call_of_result(result: &str) -> Option<String> {
    let (assistant, index) = result.rsplit_once(RESULT)?;
    Some(format!("{assistant}{CALL}{index}"))
}

/// Which of its assistant's calls an operation of this name is, or is the result of.
pub fn call_index(operation: &str) -> Option<usize> {
    let (_, index) = operation.rsplit_once(CALL).or_else(|| operation.rsplit_once(RESULT))?;
    index.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        // The assistant's own name may look like one of them.
        for assistant in ["a1", "a_tool_3", "a_result_2"] {
            let (call, result) = (call_name(assistant, 7), result_name(assistant, 7));
            assert_eq!(assistant_of_call(&call), Some(assistant));
            assert_eq!(call_of_result(&result).as_ref(), Some(&call));
            assert_eq!(call_index(&call), Some(7));
        }
        assert_eq!(call_index(&result_name("a1", 7)), Some(7));
        assert_eq!(
            (assistant_of_call("a1"), call_of_result("a1"), call_index("a1")),
            (None, None, None)
        );
    }
}
