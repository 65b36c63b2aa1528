// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// Many calls in one transaction, with the interface of Multicall3's aggregate3, which stands on every known chain.
contract Batcher {
    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function aggregate3(Call3[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (bool success, bytes memory returnData) = calls[i].target.call(calls[i].callData);
            require(success || calls[i].allowFailure, "Batcher: a call failed");
            results[i] = Result(success, returnData);
        }
    }
}
